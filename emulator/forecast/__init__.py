"""Forecasts and measurements before any training: `check`, `algorithms`, `calibrate`."""
