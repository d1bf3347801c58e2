"""Training on a device: the loop, penalties, precision, stacks of devices, and a network as it was built."""
