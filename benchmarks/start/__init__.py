"""The time from the shell to work: compiling cold, loading warm, for docs/start.md."""
