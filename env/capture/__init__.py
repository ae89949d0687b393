"""Capture of real programs: compiles a JAX function for an absent TPU in another interpreter and reads back the result."""
