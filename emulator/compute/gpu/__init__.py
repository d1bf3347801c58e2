"""Executor, store and settings for GPUs."""
