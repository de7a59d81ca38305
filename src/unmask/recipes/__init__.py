"""Recipes as TOML, one file each; the file name is the name."""
