"""Which loop holds a buffer over its passes, and which buffers each pass brings for itself.

A loop holds what it only reads, and what its passes hand on. A setting names pairs `(buffer, loop)` in which the loop
does not hold the buffer: the value is then in HBM whenever a pass ends, and each pass decides its accesses for itself,
as it does for what it makes and uses up.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..program.mapping import Mapping
from ..program.program import OPERAND, RESULT, Program
from .records import CARRIED, NEVER

# Buffers that a loop does not hold, as pairs `(buffer, loop)`.
PerPass = frozenset[tuple[int, int]]
HOLD_ALL: PerPass = frozenset()


def held_over(program: Program, per_pass: PerPass = HOLD_ALL) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the loop that holds the buffer of each access from its first instruction to its last.

    Args:
      program: the program.
      per_pass: the buffers that a loop does not hold.

    Returns:
      `[A]` the outermost loop around the access that only reads its buffer, or that writes it for its next iteration or
      for a later reader; -1 for none. `[A]` `CARRIED` if that loop writes it, else 0.
    """
    holder = np.full(program.num_accesses, -1, np.int64)
    carried = np.zeros(program.num_accesses, np.int64)
    everywhere = np.bincount(program.access_buffer, minlength=program.num_buffers)
    for loop, (first, last) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        low, high = program.access_start[first], program.access_start[last + 1]
        owners, kinds = program.access_buffer[low:high], program.access_kind[low:high]
        written = np.zeros(program.num_buffers, bool)
        written[owners[kinds == RESULT]] = True
        inside = np.bincount(owners, minlength=program.num_buffers)
        begins = np.full(program.num_buffers, RESULT)
        begins[owners[::-1]] = kinds[::-1]  # the first of each wins
        # Read before it is written: the value comes from the previous iteration.
        outlives = (inside < everywhere) | (program.definition < 0) | program.is_output | (begins == OPERAND)
        holds = ~written | outlives
        holds[[buffer for buffer, released in per_pass if released == loop]] = False
        free = holder[low:high] < 0
        holder[low:high][free & holds[owners]] = loop
        carried[low:high][free & (written & holds)[owners]] = CARRIED
    return holder, carried


def releasable(program: Program) -> PerPass:
    """Returns the pairs of a buffer and the outermost loop that holds it, for which a game may turn the holding off.

    Left out are buffers that an inner loop would hold and write, and those that a collective holds while it runs.
    """
    holder, _ = held_over(program)
    inside = np.flatnonzero(holder >= 0)
    pairs = set(zip(program.access_buffer[inside].tolist(), holder[inside].tolist(), strict=True))
    _, carried = held_over(program, frozenset(pairs))
    still = np.flatnonzero(carried > 0)
    pairs -= set(zip(program.access_buffer[still].tolist(), holder[still].tolist(), strict=True))
    collective = set(program.access_buffer[program.holds[:, 0]].tolist())
    return frozenset(pair for pair in pairs if pair[0] not in collective)


def check_per_pass(program: Program, per_pass: Iterable[tuple[int, int]]) -> PerPass:
    """Returns the pairs as a set. Raises UserError if one of them is not in `releasable`."""
    pairs = frozenset((int(buffer), int(loop)) for buffer, loop in per_pass)
    wrong = sorted(pairs - releasable(program)) if pairs else []
    if wrong:
        raise UserError(
            f"per_pass: {wrong[0]} is no pair of a buffer and a loop of {program.name!r} that may be left to the "
            "passes of that loop; `env.game.holding.releasable` lists those that are"
        )
    return pairs


def last_steps(program: Program, per_pass: PerPass) -> NDArray[np.int64]:
    """Returns `[A]` the instruction with which a stay ends that begins with an access or goes on from it, since a loop
    that does not hold its buffer begins or ends there; `NEVER` if nothing of the kind comes before the next access.

    HBM holds the value then.
    """
    ends = np.full(program.num_accesses, NEVER, np.int64)
    by_buffer = np.argsort(program.access_buffer, kind="stable")
    starts = np.searchsorted(program.access_buffer[by_buffer], np.arange(program.num_buffers + 1))
    for buffer, loop in per_pass:
        accesses = by_buffer[starts[buffer] : starts[buffer + 1]]
        step = program.access_instruction[accesses]
        for border in (int(program.loop_first[loop]) - 1, int(program.loop_last[loop])):
            place = int(np.searchsorted(step, border, "right")) - 1
            if place >= 0:
                ends[accesses[place]] = min(int(ends[accesses[place]]), border)
    return ends


def per_pass_of(program: Program, mapping: Mapping) -> PerPass:
    """Returns the buffers that a mapping has in fast memory within passes of a loop, but not from one to the next."""
    holder, _ = held_over(program)
    inside = np.flatnonzero((holder >= 0) & mapping.access_fast)
    fast = set(zip(program.access_buffer[inside].tolist(), holder[inside].tolist(), strict=True))
    buffer, start, end = mapping.residencies[:, :3].T

    def holds(owner: int, t: int) -> bool:
        return bool(np.any((buffer == owner) & (start <= t) & (t <= end)))

    return frozenset(
        (owner, loop)
        for owner, loop in fast & releasable(program)
        if not (holds(owner, int(program.loop_first[loop])) and holds(owner, int(program.loop_last[loop])))
    )
