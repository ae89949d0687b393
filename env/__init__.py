"""mallocGame and everything it stands on: programs, physics, rules, bounds. Imports no other room, and no JAX."""
