"""Search over the buffer order, prefetch times and flags of XLA's own algorithm."""
