"""The oracle: what is lost when good mappings are told as moves of a coarser game."""
