"""The replay of a single process."""
