"""Time and memory by length of program: docs/results/long-programs.md."""
