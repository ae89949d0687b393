"""Measures where an agent's model, value and policy err."""
