"""How similar the corpus is to the held-out families: docs/corpus.md."""
