"""Annealing whose changes are proposed by a trained policy network."""
