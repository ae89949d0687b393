"""The run directory on disk: manifest, programs, checkpoints, lock, log, policy; and its copy at a URL."""
