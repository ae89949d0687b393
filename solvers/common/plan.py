"""Plans: a preference for every access of a program, and games played by them in compiled code.

A plan keeps its meaning when an earlier decision changes, which a list of moves does not: what was decided there may
not come up, and what was forced may be free. A preference is a move:

- operand: `COPY` be fast (stay, else fetch), `NO_COPY` stay if there, `DROP` read from HBM, `WAIT` be fast, however
  long the prefetch keeps its instruction waiting, `CROSS_PROGRAM_FETCH` be fast, by a cross-program prefetch if it is not there;
  what a loop carries and something reads later is written back after the loop, but for `NO_COPY`;
- result: `NO_COPY` fast, `COPY` fast and written back, `DROP` HBM, `WAIT` fast, however long it waits for room.

The game rules out waits that cost more than they gain, by one clock that blends both cost models. What a search finds
under `robust` may need them: long prefetches that `msa` waits for and `cycles` hides.

What is not legal gives way to the next best. Trivial buffers are left in HBM here, which makes games twice as fast;
`fill.py` places them in the room that is left in the end.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.unowned import unowned
from ...env.game.rules import COPY, DROP, NO_COPY, NUM_MOVES, advance, catch_up, legal_moves, play, reset
from ...env.game.state import (
    A_BUFFER,
    A_CARRIED,
    A_INSTRUCTION,
    A_KIND,
    A_TIED_TO,
    AF_AHEAD,
    B_INPUT,
    B_LAST_RESULT,
    B_PLAYED,
    B_TRIVIAL,
    C_ACCESS,
    READ_LATER,
    S_RESIDENT,
    S_VALID,
    State,
    Tables,
)
from ...env.program.program import OPERAND

# Preferences that are no moves: to be in fast memory at the price of any wait, and from the start of the program.
WAIT = NUM_MOVES
CROSS_PROGRAM_FETCH = NUM_MOVES + 1
NUM_PREFERENCES = NUM_MOVES + 2


@njit(cache=True, nogil=True, forceinline=True)
def choose(tables: Tables, state: State, legal: np.ndarray, preference: int) -> int:
    """Returns the move at the access to decide next that comes nearest to a preference, and plans it."""
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    free = tables.access[access, A_TIED_TO] < 0
    if tables.access[access, A_KIND] == OPERAND:
        resident = state.buffer[owner, S_RESIDENT] == 1
        readable = state.buffer[owner, S_VALID] <= tables.access[access, A_INSTRUCTION]
        leaves = preference == DROP or (preference == NO_COPY and not resident)
        # The common cases need no plan.
        if free and readable and leaves:
            return DROP
        if free and resident and not leaves:
            return COPY if preference != NO_COPY and _may_be_written_back(tables, access) else NO_COPY
        _legal_moves(tables, state, legal, preference)
        if not free:
            return NO_COPY if legal[NO_COPY] else DROP
        if resident:
            return DROP if legal[DROP] else NO_COPY
        if preference == CROSS_PROGRAM_FETCH and legal[NO_COPY]:
            return NO_COPY
        return COPY if legal[COPY] and not leaves else DROP
    if free and preference == DROP:
        return DROP
    _legal_moves(tables, state, legal, preference)
    if preference < NUM_MOVES and legal[preference]:
        return preference
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)


@njit(cache=True, nogil=True, forceinline=True)
def _legal_moves(tables: Tables, state: State, legal: np.ndarray, preference: int) -> None:
    """Plans the move; for a preference to wait, as if the access gained more than any wait costs."""
    access = state.counters[C_ACCESS]
    gain = tables.access_f[access, AF_AHEAD]
    if preference == WAIT:
        tables.access_f[access, AF_AHEAD] = np.inf
    legal_moves(tables, state, legal)
    tables.access_f[access, AF_AHEAD] = gain


@njit(cache=True, nogil=True)
def preference_of(tables: Tables, state: State, move: int) -> int:
    """Returns the preference that leads to a legal `move` at the access to decide next."""
    access = state.counters[C_ACCESS]
    if move != NO_COPY or tables.access[access, A_KIND] != OPERAND or _may_be_written_back(tables, access):
        return move
    return COPY if state.buffer[tables.access[access, A_BUFFER], S_RESIDENT] == 1 else CROSS_PROGRAM_FETCH


@njit(cache=True, nogil=True, forceinline=True)
def _may_be_written_back(tables: Tables, access: int) -> bool:
    """Returns whether the first access in a loop says if the buffer is written back after it."""
    return tables.access[access, A_CARRIED] == READ_LATER


@njit(cache=True, nogil=True, forceinline=True)
def is_constant(tables: Tables, access: int) -> bool:
    """Returns whether nothing in the program writes the buffer of an access: `CROSS_PROGRAM_FETCH` is for these."""
    owner = tables.access[access, A_BUFFER]
    return tables.buffer[owner, B_INPUT] == 1 and tables.buffer[owner, B_LAST_RESULT] < 0


@njit(cache=True, nogil=True)
def play_plan(
    tables: Tables, state: State, legal: np.ndarray, following: np.ndarray, plan: np.ndarray, moves: np.ndarray
) -> None:
    """Plays a whole game by `plan[A]`; `moves[A]` receives the moves. `following` is that of `next_placeable`."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        access = state.counters[C_ACCESS]
        moves[access] = choose(tables, state, legal, plan[access])
        play(tables, state, moves[access])


def next_placeable(tables: Tables) -> NDArray[np.int64]:
    """Returns `[A + 1]` the first access from each one on (`A`: none) whose buffer a plan may place.

    All others stay in HBM; games by plan pass over them.
    """
    owner = tables.access[:, A_BUFFER]
    placeable = (tables.buffer[owner, B_PLAYED] == 1) & (tables.buffer[owner, B_TRIVIAL] == 0)
    places = np.append(np.flatnonzero(placeable), [len(tables.access)])
    return places[np.searchsorted(places, np.arange(len(tables.access) + 1))].astype(np.int64)


@njit(cache=True, nogil=True)
def plan_of_line(
    tables: Tables, state: State, legal: np.ndarray, line: np.ndarray, count: int, plan: np.ndarray
) -> None:
    """Plays the game by a line of `count` decisions, and makes the plan whose preferences are the moves that were made."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    decisions, before = 0, 0
    going = True
    while going:
        before = state.counters[C_ACCESS]
        going = advance(tables, state, legal)
        now = state.counters[C_ACCESS]
        for access in range(before, now):  # what the game played
            plan[access] = _made(tables, state, access)
        if going:
            move = line[decisions] if decisions < count else NO_COPY
            decisions += 1
            plan[now] = preference_of(tables, state, move)
            play(tables, state, move)


@njit(cache=True, nogil=True)
def _made(tables: Tables, state: State, access: int) -> int:
    if not state.access_fast[access]:
        return DROP
    return COPY if tables.access[access, A_KIND] == OPERAND else NO_COPY


def free_accesses(tables: Tables) -> NDArray[np.int64]:
    """Returns the accesses that a plan decides: of buffers that may be placed and are worth it, and not by a twin."""
    owner = tables.access[:, A_BUFFER]
    free = (tables.buffer[owner, B_PLAYED] == 1) & (tables.buffer[owner, B_TRIVIAL] == 0)
    # A result written in place has a twin too, but may be written back or not.
    decided = (tables.access[:, A_KIND] == OPERAND) | (tables.access[:, A_CARRIED] > 0)
    return np.flatnonzero(free & ~(decided & (tables.access[:, A_TIED_TO] >= 0)))


def random_plan(tables: Tables, generator: np.random.Generator) -> NDArray[np.int8]:
    """Returns a plan of random preferences, none of them to wait, with shares of their own."""
    shares = np.insert(generator.dirichlet(np.ones(NUM_PREFERENCES - 1)), WAIT, 0.0)
    return generator.choice(NUM_PREFERENCES, len(tables.access), p=shares).astype(np.int8)
