"""Stays: a buffer in fast memory from one access to another, as candidates and as a plan."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..game.moves import COPY, DROP, NO_COPY
from ..game.plan import CROSS_PROGRAM_FETCH, Plan, constant_accesses, placeable_accesses
from ..game.tables import Tables
from ..program.program import OPERAND

# Ways to cut stays: where a buffer is not used for longer than this share of the program's time.
CUTS = (1.0, 0.1, 0.02, 0.0)


class Stays(NamedTuple):
    """Candidates for stays in fast memory. Shapes: `S` stays, `A` accesses.

    Attributes:
      of_access: `[A]` the stay that an access belongs to, or -1.
      first, last: `[S]` first and last instruction.
      size: `[S]` bytes.
      benefit_s: `[S]` seconds that the stay saves.
      seconds: `[S]` length with everything in HBM.
      preference: `[A]` preference of an access whose stay is chosen.
    """

    of_access: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    size: NDArray[np.int64]
    benefit_s: NDArray[np.float64]
    seconds: NDArray[np.float64]
    preference: NDArray[np.int8]


def make_stays(tables: Tables, cut: float) -> Stays:
    """Returns the stays of all buffers that may be placed, cut where unused for a share `cut` of the time."""
    owner, kind = tables.access["buffer"], tables.access["kind"]
    step = tables.access["instruction"]
    begin = tables.instruction["clock_s"]
    end = begin + tables.instruction["all_hbm_s"]
    placeable = placeable_accesses(tables)
    number = np.full(len(owner), -1, np.int64)
    latest: dict[int, int] = {}
    last_step: list[int] = []
    for access in np.flatnonzero(placeable).tolist():
        buffer, t = int(owner[access]), int(step[access])
        stay = latest.get(buffer)
        if stay is None or (kind[access] == OPERAND and begin[t] - end[last_step[stay]] > cut * begin[-1]):
            latest[buffer] = stay = len(last_step)
            last_step.append(t)
        last_step[stay] = t
        number[access] = stay
    preference = np.where(kind == OPERAND, COPY, NO_COPY).astype(np.int8)
    # A result whose buffer has a later stay must be written back.
    for access in np.flatnonzero(placeable & (kind != OPERAND)).tolist():
        if latest[int(owner[access])] != number[access]:
            preference[access] = COPY
    return stays_of(tables, number, preference)


def stays_of(tables: Tables, of_access: NDArray[np.int64], preference: NDArray[np.int8]) -> Stays:
    """Returns the stays that accesses are assigned to by `of_access[A]`: numbers from 0 on, -1 for none."""
    chosen = np.flatnonzero(of_access >= 0)
    stay = of_access[chosen]
    count = int(stay.max()) + 1 if len(stay) else 0
    step, begin = tables.access["instruction"][chosen], tables.instruction["clock_s"]
    first, last = np.full(count, len(begin), np.int64), np.full(count, -1, np.int64)
    np.minimum.at(first, stay, step)
    np.maximum.at(last, stay, step)
    buffer = np.zeros(count, np.int64)
    buffer[stay] = tables.access["buffer"][chosen]
    return Stays(
        of_access,
        first,
        last,
        tables.buffer["aligned"][buffer].astype(np.int64),
        np.bincount(stay, tables.access["benefit"][chosen], minlength=count).astype(np.float64),
        (begin + tables.instruction["all_hbm_s"])[last] - begin[first],
        preference,
    )


def plan_of_stays(tables: Tables, stays: Stays, chosen: NDArray[np.bool_], writes_back: bool = False) -> Plan:
    """Returns the plan in which the accesses of the `chosen` stays (`[S]`) are fast.

    With `writes_back`, all their results are also written back at once: the copies are dear where HBM is busy, but the
    game may then end a stay early without a wait.
    """
    of_access = stays.of_access
    fast = (of_access >= 0) & (chosen[of_access] if len(chosen) else False)
    plan = np.where(fast, stays.preference, DROP).astype(np.int8)
    if writes_back:
        plan[fast & (tables.access["kind"] != OPERAND)] = COPY
    # The game prefetches the first input that prefers it across programs: only the one that gains most does.
    able = np.flatnonzero((plan == COPY) & constant_accesses(tables))
    if len(able):
        best = able[np.argmax(stays.benefit_s[of_access[able]])]
        plan[of_access == of_access[best]] = CROSS_PROGRAM_FETCH
    return plan
