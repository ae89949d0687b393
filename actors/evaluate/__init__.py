"""Plays programs with an agent, beside the reference players."""
