"""Forecasts and measurements before any training, for `fedlapse check`, `algorithms` and `calibrate`."""
