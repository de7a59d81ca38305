"""Checkpoints as files: find, read, check and write them. Knows no training and no decoding."""
