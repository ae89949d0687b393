"""Helpers for code that Numba compiles, and the cache of that code."""

from .cache import keep_compiled_code_by_source

# Before any module of the package declares a compiled function: each imports from here, or from a folder that does.
keep_compiled_code_by_source()
