"""How a device trains: the loop, penalties, precision, stacks of devices, and a network as it was built."""
