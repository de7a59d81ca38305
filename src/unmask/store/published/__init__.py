"""Checkpoints that others published under names of their own: one kind a file."""
