"""The bytes of tensors on the network."""
