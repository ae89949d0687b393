"""Settings of the game: the measurement behind decision 0004."""
