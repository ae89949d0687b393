"""Gives a mapping back to the real compiler as options, and reads what came true."""
