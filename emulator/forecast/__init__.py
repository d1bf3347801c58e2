"""What can be said before any training: `check`, `algorithms`, `calibrate`."""
