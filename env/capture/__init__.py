"""Capture of real programs: compiles a JAX function for an absent TPU, elsewhere, and reads back the result."""
