"""Shared parts of the benchmarks: records on disk, versions, a pool of jobs, pages with generated tables, training."""
