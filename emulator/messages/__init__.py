"""Messages: tensors as bytes, and where the bytes lie."""
