"""The oracle: what is lost when good mappings are expressed as moves of a coarser game."""
