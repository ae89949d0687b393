"""Plans: a preference for every access of a program, and games that follow them in compiled code.

A plan keeps its meaning when an earlier decision changes, which a list of moves does not: a decision may no longer come
up, and a forced move may become free. A preference is a move, or one of two that are none:

- operand: `COPY` fast memory (stay, else prefetch), `NO_COPY` stay if resident, `DROP` read from HBM, `WAIT` fast
  memory however long the instruction waits for the prefetch, `CROSS_PROGRAM_FETCH` fast memory, by a cross-program
  prefetch if the buffer is not resident. All but `NO_COPY` also ask that a buffer carried by a loop be written back
  after the loop if it is read later.
- result: `NO_COPY` fast memory, `COPY` fast memory and write-back, `DROP` HBM, `WAIT` fast memory however long the
  instruction waits for free memory.

The game rules out waits that cost more than they gain by its clock, which blends both cost models. A search under
`robust` may need such a wait: a long prefetch that `msa` waits for and `cycles` hides.

An illegal preference gives way to the nearest legal move. Trivial buffers stay in HBM, which makes games twice as fast;
`fill.py` places them in the memory that is free in the end.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ...env.compiled.unowned import unowned
from ...env.game.columns import (
    A_BUFFER,
    A_CARRIED,
    A_INSTRUCTION,
    A_KIND,
    A_TIED_TO,
    B_INPUT,
    B_LAST_RESULT,
    B_PLAYED,
    B_TRIVIAL,
    C_ACCESS,
    READ_LATER,
    S_RESIDENT,
    S_VALID,
)
from ...env.game.instructions import catch_up
from ...env.game.legality import legal_moves
from ...env.game.moves import COPY, DROP, NO_COPY, NUM_MOVES
from ...env.game.options import ANY_OFFSET, Options
from ...env.game.outcome import Scoring
from ...env.game.play import play
from ...env.game.rules import advance, reset
from ...env.game.state import State
from ...env.game.tables import Tables
from ...env.program.program import OPERAND

Plan = NDArray[np.int8]

# Preferences that are no moves.
WAIT = NUM_MOVES
CROSS_PROGRAM_FETCH = NUM_MOVES + 1
NUM_PREFERENCES = NUM_MOVES + 2


class PlanGame(NamedTuple):
    """A game that follows plans, as compiled searches take it. Shapes: `A` accesses.

    Attributes:
      tables, state, options: the game.
      block: the bytes of the state.
      following: `[A + 1]`, `next_placeable`.
      scoring: the objective.
    """

    tables: Tables
    state: State
    options: Options
    block: NDArray[np.uint8]
    following: NDArray[np.int64]
    scoring: Scoring


@njit(cache=True, nogil=True, forceinline=True)
def choose(tables: Tables, state: State, options: Options, preference: int) -> int:
    """Returns the legal move nearest to a preference at the access to decide next, and plans it in `options`."""
    access = state.counters[C_ACCESS]
    owner = tables.access[access, A_BUFFER]
    free = tables.access[access, A_TIED_TO] < 0
    legal = options.legal
    if tables.access[access, A_KIND] == OPERAND:
        resident = state.buffer[owner, S_RESIDENT] == 1
        readable = state.buffer[owner, S_VALID] <= tables.access[access, A_INSTRUCTION]
        leaves = preference == DROP or (preference == NO_COPY and not resident)
        # The common cases need no plan.
        if free and readable and leaves:
            return DROP
        if free and resident and not leaves:
            return COPY if preference != NO_COPY and _may_be_written_back(tables, access) else NO_COPY
        legal_moves(tables, state, options, ANY_OFFSET, preference == WAIT)
        if not free:
            return NO_COPY if legal[NO_COPY] else DROP
        if resident:
            return DROP if legal[DROP] else NO_COPY
        if preference == CROSS_PROGRAM_FETCH and legal[NO_COPY]:
            return NO_COPY
        return COPY if legal[COPY] and not leaves else DROP
    if free and preference == DROP:
        return DROP
    legal_moves(tables, state, options, ANY_OFFSET, preference == WAIT)
    if preference < NUM_MOVES and legal[preference]:
        return preference
    return NO_COPY if legal[NO_COPY] else (COPY if legal[COPY] else DROP)


@njit(cache=True, nogil=True)
def preference_of(tables: Tables, state: State, move: int) -> int:
    """Returns the preference that leads to a legal `move` at the access to decide next."""
    access = state.counters[C_ACCESS]
    if move != NO_COPY or tables.access[access, A_KIND] != OPERAND or _may_be_written_back(tables, access):
        return move
    return COPY if state.buffer[tables.access[access, A_BUFFER], S_RESIDENT] == 1 else CROSS_PROGRAM_FETCH


@njit(cache=True, nogil=True, forceinline=True)
def _may_be_written_back(tables: Tables, access: int) -> bool:
    """Returns whether the move at this access, the first in a loop, decides on a write-back after the loop."""
    return tables.access[access, A_CARRIED] == READ_LATER


@njit(cache=True, nogil=True, forceinline=True)
def is_constant(tables: Tables, access: int) -> bool:
    """Returns whether the program never writes the buffer of an access: only such a buffer is prefetched across
    programs."""
    owner = tables.access[access, A_BUFFER]
    return tables.buffer[owner, B_INPUT] == 1 and tables.buffer[owner, B_LAST_RESULT] < 0


@njit(cache=True, nogil=True)
def play_plan(
    tables: Tables, state: State, options: Options, following: np.ndarray, plan: np.ndarray, moves: np.ndarray
) -> None:
    """Plays a whole game by `plan[A]`; `moves[A]` receives the moves. `following` is that of `next_placeable`."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    while True:
        state.counters[C_ACCESS] = following[state.counters[C_ACCESS]]
        if not catch_up(tables, state):
            return
        access = state.counters[C_ACCESS]
        moves[access] = choose(tables, state, options, plan[access])
        play(tables, state, options, moves[access])


def next_placeable(tables: Tables) -> NDArray[np.int64]:
    """Returns `[A + 1]` the first access from each one on (`A`: none) whose buffer a plan may place.

    All others stay in HBM; games by plan skip them.
    """
    owner = tables.access[:, A_BUFFER]
    placeable = (tables.buffer[owner, B_PLAYED] == 1) & (tables.buffer[owner, B_TRIVIAL] == 0)
    places = np.append(np.flatnonzero(placeable), [len(tables.access)])
    return places[np.searchsorted(places, np.arange(len(tables.access) + 1))].astype(np.int64)


@njit(cache=True, nogil=True)
def plan_of_line(
    tables: Tables, state: State, options: Options, line: np.ndarray, count: int, plan: np.ndarray
) -> None:
    """Plays the `count` decisions of `line`, and fills `plan[A]` with the preferences for the moves made."""
    tables, state = unowned(tables), unowned(state)
    reset(tables, state)
    decisions, before = 0, 0
    going = True
    while going:
        before = state.counters[C_ACCESS]
        going = advance(tables, state, options)
        now = state.counters[C_ACCESS]
        for access in range(before, now):  # played by the game
            plan[access] = _made(tables, state, access)
        if going:
            move = line[decisions] if decisions < count else NO_COPY
            decisions += 1
            plan[now] = preference_of(tables, state, move)
            play(tables, state, options, move)


@njit(cache=True, nogil=True)
def _made(tables: Tables, state: State, access: int) -> int:
    if not state.access_fast[access]:
        return DROP
    return COPY if tables.access[access, A_KIND] == OPERAND else NO_COPY


def free_accesses(tables: Tables) -> NDArray[np.int64]:
    """Returns `[F]` the accesses that a plan decides: those of buffers that may be placed and are not trivial, unless
    they are tied to an earlier access."""
    owner = tables.access[:, A_BUFFER]
    free = (tables.buffer[owner, B_PLAYED] == 1) & (tables.buffer[owner, B_TRIVIAL] == 0)
    # A result written in place is tied to its operand, but its write-back is still to decide.
    decided = (tables.access[:, A_KIND] == OPERAND) | (tables.access[:, A_CARRIED] > 0)
    return np.flatnonzero(free & ~(decided & (tables.access[:, A_TIED_TO] >= 0)))


def random_plan(tables: Tables, generator: np.random.Generator) -> Plan:
    """Returns a plan `[A]` of random preferences in random proportions, `WAIT` excluded."""
    shares = np.insert(generator.dirichlet(np.ones(NUM_PREFERENCES - 1)), WAIT, 0.0)
    return generator.choice(NUM_PREFERENCES, len(tables.access), p=shares).astype(np.int8)
