"""The status of a run, read from its folder alone: progress, rates, waits, and what limits it."""
