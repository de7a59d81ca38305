"""One cache policy a file; the file name is its name."""
