"""Cost models, objective and simulator: the one place that computes latency."""
