"""Solvers: each turns a program into a mapping within a budget."""
