"""Where training rows come from: one kind of source a file."""
