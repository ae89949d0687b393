"""Gumbel MuZero search over the learned model."""
