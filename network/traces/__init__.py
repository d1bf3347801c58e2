"""Files in which others have written down what links carried: one reader a format, recognition, two writers."""
