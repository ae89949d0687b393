"""Packing: offsets in fast memory for a fixed set of half-open residencies."""

# Sets the cache of compiled code before a function is declared.
from .. import compiled  # noqa: F401
