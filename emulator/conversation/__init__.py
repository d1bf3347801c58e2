"""What the server and the devices say to each other, written once for both worlds."""
