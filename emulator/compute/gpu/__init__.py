"""What knows of GPUs."""
