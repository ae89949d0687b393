"""Time and memory by length of program: docs/long-programs.md."""
