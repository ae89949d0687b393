"""Shared by solvers: task and budget, plans, annealing walks, following a mapping, greedy rules."""
