"""Bounds on all programs, for env/workloads/bounds.json and docs/bounds.md."""
