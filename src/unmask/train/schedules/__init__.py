"""One learning-rate schedule a file; the file name is its name. Warm-up comes before them all."""
