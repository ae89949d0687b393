"""Helpers for code that Numba compiles, and the cache of that code."""
