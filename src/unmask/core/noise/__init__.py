"""Noise schedules, one file each: from noise level t to the probability of being masked."""
