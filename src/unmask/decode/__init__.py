"""Decoding: one engine for diffusion and AR, streaming or not. The engine never sees text."""
