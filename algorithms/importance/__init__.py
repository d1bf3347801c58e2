"""How much a weight matters: estimates of it, and what is done with them."""
