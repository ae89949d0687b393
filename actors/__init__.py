"""Self-play, tree search, evaluation and diagnosis of agents."""
