"""Links that many flows share."""
