"""The rules of mallocGame, top down: a game walks the accesses of a program in order, and stops at each with a choice.

`advance` plays every access with a single legal move, and those of trivial buffers, and stops before the first with a
choice; `step` makes a move there and advances. Each rule has a file of its own:

- `legality.py` which moves are legal, and how each would be carried out; `offsets.py` and `windows.py` find the memory
  and the HBM time.
- `play.py` carries a move out; `residencies.py` and `copies.py` keep fast memory and HBM time.
- `instructions.py` lets time pass between decisions; `clock.py` prices an instruction.

The reasons for the rules: docs/mallocgame.md.
"""

import numpy as np
from numba import njit

from ..compiled.unowned import unowned
from .columns import (
    A_BUFFER,
    A_INSTRUCTION,
    B_INPUT,
    B_LAST,
    B_TRIVIAL,
    C_ACCESS,
    C_CROSS,
    C_DECISIONS,
    C_UNTOUCHED,
    D_ENDED,
    D_ISSUED,
    D_KEY,
    D_PREFETCHES,
    I_KEY,
    L_FAST,
    L_RESERVED,
    NEVER,
    S_GONE,
    S_SOURCE,
    S_TOUCH,
    S_VALID,
    S_WRITE_BACK,
)
from .instructions import catch_up
from .legality import legal_moves
from .moves import COPY, DROP, NO_COPY
from .options import ANY_OFFSET, Options
from .play import play
from .state import State
from .tables import Tables

# Instructions after which a trivial buffer is not kept as the only copy.
_LONG_LIFE = 32


@njit(cache=True)
def reset(tables: Tables, state: State) -> None:
    """Sets `state` to the beginning of a game."""
    state.access_fast[:] = 0
    state.buffer[:] = 0
    state.buffer[:, S_TOUCH] = -1
    state.buffer[:, S_WRITE_BACK] = -1
    state.buffer[:, S_GONE] = -1
    state.buffer[:, S_SOURCE] = -1
    for owner in range(len(tables.buffer)):
        state.buffer[owner, S_VALID] = 0 if tables.buffer[owner, B_INPUT] else NEVER
    state.step[:, D_PREFETCHES] = 0
    state.step[:, D_ISSUED] = NEVER
    state.step[:, D_ENDED] = -1
    state.step[:, D_KEY] = tables.instruction[:, I_KEY]
    state.step_f[:] = 0.0
    state.counters[:] = 0
    state.counters[C_CROSS] = -1
    state.counters[C_UNTOUCHED] = 1
    state.untouched[0, 0] = tables.limits[L_RESERVED]
    state.untouched[0, 1] = tables.limits[L_FAST]
    state.sums[:] = 0.0


@njit(cache=True)
def advance(tables: Tables, state: State, options: Options) -> bool:
    """Plays on to the next access with a choice and fills `options` for it. Returns False when the game is over."""
    tables, state = unowned(tables), unowned(state)
    while catch_up(tables, state):
        access = state.counters[C_ACCESS]
        choices = legal_moves(tables, state, options, ANY_OFFSET, False)
        if choices == 0:
            raise AssertionError("mallocGame has no legal move: its invariants are broken")
        if choices > 1 and not tables.buffer[tables.access[access, A_BUFFER], B_TRIVIAL]:
            return True
        play(tables, state, options, own_move(tables, state, options))
    return False


@njit(cache=True)
def own_move(tables: Tables, state: State, options: Options) -> int:
    """Returns the move that the game itself makes where a move is forced, or not worth a decision.

    It prefers fast memory, without eviction or wait. A trivial buffer that lives long is also written back, so that it
    can be evicted: many small sole copies would fragment fast memory.
    """
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    legal = options.legal
    if legal[COPY] and legal[NO_COPY]:
        last = tables.access[tables.buffer[owner, B_LAST], A_INSTRUCTION]
        if last - tables.access[access, A_INSTRUCTION] > _LONG_LIFE:
            return COPY
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)


@njit(cache=True)
def step(tables: Tables, state: State, options: Options, move: int) -> bool:
    """Makes a move at a decision and advances to the next. Returns False when the game is over."""
    step_over(tables, state, options, move)
    return advance(tables, state, options)


@njit(cache=True)
def step_over(tables: Tables, state: State, options: Options, move: int) -> None:
    """Makes a move at a decision, and does not advance."""
    state.counters[C_DECISIONS] += 1
    play(tables, state, options, move)


@njit(cache=True)
def play_line(tables: Tables, state: State, options: Options, moves: np.ndarray, taken: np.ndarray) -> int:
    """Plays a whole game: `moves[k]` at decision `k`, else the first legal move of NoCopy, Drop, Copy.

    Returns the number of decisions; `taken` receives the moves made.
    """
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    going = advance(tables, state, options)
    legal = options.legal
    decisions = 0
    while going:
        move = moves[decisions] if decisions < len(moves) else -1
        if move < 0 or not legal[move]:
            move = NO_COPY if legal[NO_COPY] else (DROP if legal[DROP] else COPY)
        taken[decisions] = move
        decisions += 1
        going = step(tables, state, options, move)
    return decisions
