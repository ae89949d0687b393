"""Checks that a mapping is legal, independently of the game and of every solver."""
