"""XLA's Memory Space Assignment (MSA) in our own code."""
