"""Experiment trackers that are told of runs while they are played: CSV files, TensorBoard, MLflow, Weights & Biases."""
