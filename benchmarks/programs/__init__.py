"""The programs of the benchmark, for docs/benchmark.md."""
