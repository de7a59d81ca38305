"""The invariants of a checkpoint, each against an outside oracle and with a negative control."""
