"""Greedy rules and knapsacks."""
