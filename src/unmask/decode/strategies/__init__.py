"""One strategy a file; the file name is its name."""
