"""Mappings given back to the compiler, for docs/round-trip-results.md."""
