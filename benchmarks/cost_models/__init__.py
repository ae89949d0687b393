"""The two cost models against each other, for docs/cost-models.md."""
