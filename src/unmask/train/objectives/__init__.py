"""One objective a file; the file name is its name."""
