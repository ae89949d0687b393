"""mallocGame and everything it is built on: programs, physics, rules, bounds. Imports no other room and no JAX."""
