"""Speed of the parts: `game`, `search` and `replay` each print a table."""
