"""The run directory on disk: manifest, checkpoints, lock, status."""
