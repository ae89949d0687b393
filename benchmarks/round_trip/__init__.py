"""Mappings given back to the compiler, for docs/results/round-trip.md."""
