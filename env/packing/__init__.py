"""Packing: offsets in fast memory for a fixed set of half-open residencies."""
