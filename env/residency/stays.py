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


class Placeable(NamedTuple):
    """The accesses that may be placed, buffer by buffer and in time. Shapes: `M` of them.

    Attributes:
      member: `[M]` the accesses.
      begins_buffer: `[M]` whether it is the first of its buffer.
      pause: `[M]` seconds since the one before, with everything in HBM; 0 for the first of a buffer.
      can_part: `[M]` whether a stay may begin there: results end one and begin none.
      program_s: seconds of the program with everything in HBM.
    """

    member: NDArray[np.int64]
    begins_buffer: NDArray[np.bool_]
    pause: NDArray[np.float64]
    can_part: NDArray[np.bool_]
    program_s: float

    def begins(self, cut: float) -> NDArray[np.bool_]:
        """Returns `[M]` whether a stay begins there, where stays are cut at pauses of a share `cut` of the time."""
        return self.begins_buffer | (self.can_part & (self.pause > cut * self.program_s))


def list_placeable(tables: Tables) -> Placeable:
    """Returns the accesses that may be placed."""
    owner, kind, step = (tables.access[name] for name in ("buffer", "kind", "instruction"))
    begin = tables.instruction["clock_s"]
    end = begin + tables.instruction["all_hbm_s"]
    accesses = np.flatnonzero(placeable_accesses(tables))
    member = accesses[np.argsort(owner[accesses], kind="stable")].astype(np.int64)
    begins_buffer = np.ones(len(member), bool)
    begins_buffer[1:] = owner[member[1:]] != owner[member[:-1]]
    pause = np.zeros(len(member))
    pause[1:] = begin[step[member[1:]]] - end[step[member[:-1]]]
    pause[begins_buffer] = 0.0
    return Placeable(member, begins_buffer, pause, kind[member] == OPERAND, float(begin[-1]))


def make_stays(tables: Tables, cut: float) -> Stays:
    """Returns the stays of all buffers that may be placed, cut where unused for a share `cut` of the time.

    They are numbered by their first accesses.
    """
    placeable = list_placeable(tables)
    member, begins = placeable.member, placeable.begins(cut)
    kind = tables.access["kind"]
    stay = np.cumsum(begins) - 1
    rank = np.empty(int(begins.sum()), np.int64)
    rank[np.argsort(member[begins], kind="stable")] = np.arange(len(rank))
    of_access = np.full(len(kind), -1, np.int64)
    of_access[member] = rank[stay]
    preference = np.where(kind == OPERAND, COPY, NO_COPY).astype(np.int8)
    # A result whose buffer has a later stay must be written back.
    buffer = np.cumsum(placeable.begins_buffer) - 1
    ends_buffer = np.append(placeable.begins_buffer[1:], True)[: len(member)]
    has_later = stay != stay[ends_buffer][buffer]
    preference[member[has_later & (kind[member] != OPERAND)]] = COPY
    return stays_of(tables, of_access, preference)


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

    With `writes_back`, all their results are also written back at once: the copies are costly where HBM is busy, but
    the game may then end a stay early without a wait.
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
