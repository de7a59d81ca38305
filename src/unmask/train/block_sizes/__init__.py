"""One way of choosing each row's block size a file; the file name is its name."""
