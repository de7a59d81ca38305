"""Adaptation: data → rows → noise → loss → weights. Knows no decoding and no command line."""
