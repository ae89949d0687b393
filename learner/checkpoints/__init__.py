"""Checkpoints of the training state, and policy files."""
