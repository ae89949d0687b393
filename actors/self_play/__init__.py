"""The self-play actor: episodes, branches, the best line of play per program."""
