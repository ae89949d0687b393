"""Pictures of docs/results.md: learning curves of training runs."""
