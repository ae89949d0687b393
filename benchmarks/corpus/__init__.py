"""How alike the corpus is to the families that are held out: docs/corpus.md."""
