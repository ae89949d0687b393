"""Ablations of the agent, for docs/ablations.md: rows in `rows.toml`, runs by `measure`, tables by `page`."""
