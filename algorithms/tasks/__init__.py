"""What networks are trained for: losses and metrics."""
