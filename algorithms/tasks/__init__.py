"""Tasks of networks: losses and metrics."""
