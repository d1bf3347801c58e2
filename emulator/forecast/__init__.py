"""Forecasts before any training: `check`, `algorithms`, `calibrate`."""
