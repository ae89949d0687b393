"""Random changes of a plan, as an annealing walk makes them.

A change alters one preference, two near each other, or all of a buffer from an access on, or it swaps two buffers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import routine
from ...env.compiled.sorting import first_above
from ...env.compiled.struct import Struct, array, rows
from ...env.game.catch_up import LAGS
from ...env.game.moves import COPY, DROP, NO_COPY, NUM_MOVES
from ...env.game.plan import CROSS_PROGRAM_FETCH, WAIT, is_constant
from ...env.game.tables import Tables
from ...env.program.program import OPERAND

# Accesses are near each other at this distance or less.
_NEAR = 40
# A change alters at most this many preferences.
_MAX_CHANGES = 64


class Search(NamedTuple):
    """Settings of a walk.

    Attributes:
      waits: `WAIT` is among the preferences drawn.
      gives_up: games that fall behind are not played to their end.
      uniform: share of changes that are equally likely to begin at any access; the others favour accesses with more at
        stake.
      single, pair, forward: shares of changes of one preference, of two near each other, and of all later preferences
        of a buffer; the rest swaps two buffers near each other.
    """

    waits: bool = False
    gives_up: bool = False
    uniform: float = 1.0
    single: float = 0.5
    pair: float = 0.25
    forward: float = 0.25


PLAIN = Search()


class Drawing(Struct):
    """The distribution of changes. Shapes: `F` free accesses.

    Attributes:
      free: `[F]` the accesses that a plan decides.
      cumulative: `[F]` cumulative probabilities of beginning a change there.
      changed, before: `[_MAX_CHANGES]` accesses of the last change, and their preferences before.
      behind: `[LAGS]` seconds by which the changed game is behind the current one at points after the change.
    """

    free: NDArray[np.int64] = rows(np.int64)
    cumulative: NDArray[np.float64] = array(np.float64, 1)
    changed: NDArray[np.int64] = rows(np.int64)
    before: NDArray[np.int8] = rows(np.int8)
    behind: NDArray[np.float64] = rows(np.float64)


def new_drawing(tables: Tables, free: NDArray[np.int64], uniform: float) -> Drawing:
    """Returns the distribution of changes of the accesses `free[F]`; `uniform` as in `Search`."""
    return Drawing(
        free=free,
        cumulative=_cumulative(tables, free, uniform),
        changed=np.zeros(_MAX_CHANGES, np.int64),
        before=np.zeros(_MAX_CHANGES, np.int8),
        behind=np.zeros(LAGS),
    )


def _cumulative(tables: Tables, free: NDArray[np.int64], uniform: float) -> NDArray[np.float64]:
    """Returns `[F]` cumulative probabilities of the free accesses to begin a change at.

    At stake is the benefit of an operand; for a result half of its benefits ahead.
    """
    if not len(free):
        return np.zeros(0)
    stake = np.abs(tables.access["benefit"][free])
    result = tables.access["kind"][free] != OPERAND
    stake[result] = 0.5 * (stake[result] + np.abs(tables.access["ahead"][free][result]))
    total = stake.sum()
    share = np.full(len(free), 1.0 / len(free))
    if total > 0.0:
        share = uniform * share + (1.0 - uniform) * stake / total
    return np.cumsum(share) / share.sum()


@routine
def draw_change(
    tables: Tables,
    drawing: Drawing,
    plan: np.ndarray,
    moves: np.ndarray,
    generator: np.random.Generator,
    search: Search,
    single: bool,
) -> int:
    """Changes one preference or several in place, and notes them in `drawing`; returns how many."""
    free = drawing.free
    index = first_above(drawing.cumulative, generator.random())
    index = min(index, len(free) - 1)
    kind = 0.0 if single else generator.random()
    access = free[index]
    if kind < search.single + search.pair + search.forward:
        preference = _other(tables, plan, access, generator, search.waits)
        count = _set(drawing, plan, access, preference, 0)
        if kind < search.single:
            return count
        if kind >= search.single + search.pair:
            return _set_onwards(tables, drawing, plan, access, preference, False, count)
        near = _near(free, index, generator)
        if near != access:
            count = _set(drawing, plan, near, _other(tables, plan, near, generator, search.waits), count)
        return count
    # A swap: one buffer leaves fast memory, another enters, each until it is written again.
    enters = moves[access] == DROP
    fast = WAIT if search.waits and generator.random() < 0.25 else (COPY if generator.random() < 0.5 else NO_COPY)
    count = _set(drawing, plan, access, fast if enters else DROP, 0)
    count = _set_onwards(tables, drawing, plan, access, fast if enters else DROP, True, count)
    for _ in range(4):
        near = _near(free, index, generator)
        if tables.access[near].buffer != tables.access[access].buffer and (moves[near] == DROP) != enters:
            count = _set(drawing, plan, near, DROP if enters else fast, count)
            return _set_onwards(tables, drawing, plan, near, DROP if enters else fast, True, count)
    return count


@routine
def _near(free: np.ndarray, index: int, generator: np.random.Generator) -> int:
    near = index + int(generator.random() * (2 * _NEAR + 1)) - _NEAR
    return free[min(max(near, 0), len(free) - 1)]


@routine
def _set(drawing: Drawing, plan: np.ndarray, access: int, preference: int, count: int) -> int:
    """Changes a preference and notes the old one; returns how many are noted."""
    if count == _MAX_CHANGES:
        return count
    drawing.changed[count] = access
    drawing.before[count] = plan[access]
    plan[access] = preference
    return count + 1


@routine
def _set_onwards(
    tables: Tables, drawing: Drawing, plan: np.ndarray, access: int, preference: int, until_written: bool, count: int
) -> int:
    """Changes the preferences of a buffer after `access` to the same one; returns how many are noted."""
    following = tables.access[access].next
    while following >= 0 and count < _MAX_CHANGES:
        if until_written and tables.access[following].kind != OPERAND:
            break
        if plan[following] != preference:
            count = _set(drawing, plan, following, preference, count)
        following = tables.access[following].next
    return count


@routine
def _other(tables: Tables, plan: np.ndarray, access: int, generator: np.random.Generator, waits: int) -> int:
    """Returns a preference other than the present one of an access, all equally likely."""
    constant = is_constant(tables, access)
    count = 3 + (1 if waits else 0) + (1 if constant else 0)
    while True:
        drawn = int(generator.random() * count)
        preference = CROSS_PROGRAM_FETCH
        if drawn < NUM_MOVES:
            preference = drawn
        elif drawn == NUM_MOVES and waits:
            preference = WAIT
        if preference != plan[access]:
            return preference


@routine
def take_back(drawing: Drawing, plan: np.ndarray, count: int) -> None:
    """Takes back the `count` changes of the last draw."""
    for k in range(count - 1, -1, -1):
        plan[drawing.changed[k]] = drawing.before[k]
