"""Tensors only: what a diffusion language model computes. Knows no text, no files, no requests.

Shape suffixes: B batch rows, N cache rows, L sequence tokens, S block tokens, T tokens of a
training row, Q queries of this forward, K keys seen, H key/value heads, D head width, E model
width, V vocabulary, M picked positions.
"""
