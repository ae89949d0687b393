"""The residency game: a position is a plan and the game that it makes; a move changes one stay in fast memory."""
