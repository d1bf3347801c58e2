"""A page on loopback that shows runs while they are played."""
