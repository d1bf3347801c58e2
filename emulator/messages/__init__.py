"""Messages: tensors as bytes, and stores of the bytes."""
