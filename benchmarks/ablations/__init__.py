"""Ablations of the agent, for docs/results/ablations.md: rows in `rows.toml`, runs by `measure`, tables by `page`."""
