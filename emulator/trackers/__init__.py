"""Logs runs to experiment trackers while they are played: CSV files, TensorBoard, MLflow, Weights & Biases."""
