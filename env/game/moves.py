"""The three moves of mallocGame."""

NO_COPY = 0
COPY = 1
DROP = 2
NUM_MOVES = 3
# Stands for no move.
NO_MOVE = -1
MOVE_NAMES = ("NoCopy", "Copy", "Drop")
