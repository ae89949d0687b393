"""Production mappings replayed in the game, for docs/results/representability.md."""
