"""Production mappings replayed in the game, for docs/representability.md."""
