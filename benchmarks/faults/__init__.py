"""Faults injected into a training run, and the stops that checkpoints make, for docs/results/faults.md."""
