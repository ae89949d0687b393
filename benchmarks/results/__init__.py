"""Pictures of docs/results/first-runs.md: learning curves of training runs."""
