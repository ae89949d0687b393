"""The rules of mallocGame, top down: a game walks the accesses of a program in order, and stops at each with a choice.

`advance` makes a move, plays every access with a single legal move, and those of trivial buffers, and stops before the
first with a choice. Each rule has a file of its own:

- `legality.py` which moves are legal, and how each would be carried out; `offsets.py` and `windows.py` find the memory
  and the HBM time.
- `play.py` carries a move out; `residencies.py` and `copies.py` keep fast memory and HBM time.
- `instructions.py` lets time pass between decisions; `clock.py` prices an instruction.
- `kernels.py` lists what Python and other compiled code may call.

The reasons for the rules: docs/mallocgame.md.
"""

from ..compiled.kernel import routine
from .instructions import catch_up
from .legality import legal_moves
from .moves import COPY, DROP, NO_COPY, NO_MOVE
from .options import ANY_OFFSET, Options
from .play import play
from .records import IN_HBM, NEVER
from .state import State
from .tables import Tables

# Instructions after which a trivial buffer is not kept as the only copy.
_LONG_LIFE = 32


@routine
def reset(tables: Tables, state: State) -> None:
    """Sets `state` to the beginning of a game."""
    for access in range(len(tables.access)):
        state.access_fast[access] = IN_HBM
    for owner in range(len(tables.buffer)):
        holding = state.buffer[owner]
        holding.resident = 0
        holding.offset = 0
        holding.start = 0
        holding.touched = -1
        holding.valid = 0 if tables.buffer[owner].is_input else NEVER
        holding.write_back = -1
        holding.release = 0
        holding.gone = -1
        holding.source = -1
        holding.returns = 0
    for t in range(len(tables.instruction)):
        step = state.step[t]
        step.prefetches = 0
        step.issued = NEVER
        step.ended = -1
        step.key = tables.instruction[t].key
        step.fast_bytes = 0.0
        step.idle_s = 0.0
        step.wait_s = 0.0
        step.saving_s = 0.0
    now = state.now
    now.access = 0
    now.final = 0
    now.holders = 0
    now.residencies = 0
    now.copies = 0
    now.queue_head = 0
    now.queue_tail = 0
    now.decisions = 0
    now.evictions = 0
    now.stalled = 0
    now.ending = 0
    now.cross = -1
    now.untouched = 1
    now.owed = 0
    now.reward = 0.0
    state.untouched[0].low = tables.limits.reserved
    state.untouched[0].high = tables.limits.fast_bytes


@routine
def advance(tables: Tables, state: State, options: Options, move: int) -> int:
    """Makes a move at a decision, or none if `move` is `NO_MOVE`, plays on to the next access with a choice, and fills
    `options` for it.

    Returns:
      The number of legal moves there; 0 when the game is over; below 0 if an access has no legal move, so the game's
      invariants are broken.
    """
    if move != NO_MOVE:
        state.now.decisions += 1
        play(tables, state, options, move)
    while catch_up(tables, state):
        access = state.now.access
        choices = legal_moves(tables, state, options, ANY_OFFSET, False)
        if choices == 0:
            return -1
        if choices > 1 and not tables.buffer[tables.access[access].buffer].trivial:
            return choices
        play(tables, state, options, own_move(tables, state, options))
    return 0


@routine
def own_move(tables: Tables, state: State, options: Options) -> int:
    """Returns the move that the game itself makes where a move is forced, or not worth a decision.

    It prefers fast memory, without eviction or wait. A trivial buffer that lives long is also written back, so that it
    can be evicted: many small sole copies would fragment fast memory.
    """
    access = state.now.access
    owner = tables.access[access].buffer
    legal = options.legal
    if legal[COPY] and legal[NO_COPY]:
        last = tables.access[tables.buffer[owner].last].instruction
        if last - tables.access[access].instruction > _LONG_LIFE:
            return COPY
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)
