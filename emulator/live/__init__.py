"""A web page on this computer alone (loopback) that shows runs while they are played."""
