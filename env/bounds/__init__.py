"""Lower bounds on the latency of every legal mapping of a program: docs/bounds.md."""
