"""Programs, targets and mappings, and the files they are stored in."""
