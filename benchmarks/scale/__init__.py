"""Throughput by number of actors, modelled and checked, for docs/results/scale.md."""
