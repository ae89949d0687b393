"""Benchmarks: a folder per page of results, with a command `measure` or `page` or both, run as `python -m`."""
