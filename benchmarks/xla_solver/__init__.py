"""The solver `xla` against the compiler, for docs/xla-solver.md."""
