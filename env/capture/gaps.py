"""Places copies that XLA issues after a wait, in the same gap between two instructions (pipeline step 4).

Within a gap, a mapping issues copies first and then waits. XLA may do it the other way round:

- It waits for the copy that replaces an instruction, and then issues another copy. Here that copy is issued after the
  replaced instruction, which takes no time.
- It waits for a write-back, and then fetches the same buffer again. Here that fetch is issued one instruction later.
  Where the program keeps an instruction that moves nothing for this purpose, that instruction lies in between, and
  copies that XLA issues later are issued after it too. Where that fetch must end before that instruction does, the
  write-back ends an instruction earlier instead, and has that much less time.
"""

from collections.abc import Set

from ..program.mapping import PREFETCH, WRITE_BACK
from ..program.program import Program

# The place of a copy's issue in the compiled schedule, and its row (`COPY_FIELDS`).
Placed = tuple[int, tuple[int, ...]]


def place_in_gaps(
    copies: list[Placed],
    residencies: list[tuple[int, ...]],
    waits: dict[int, int],
    replaced: Set[int],
    idle: Set[int],
    program: Program,
) -> set[int]:
    """Moves the starts of copies, and of the residencies that they fill, in place.

    Args:
      copies: in the order of their places; afterwards in the order of issue.
      residencies: rows (`RESIDENCY_FIELDS`).
      waits: place of the wait by place of the issue.
      replaced: instructions that copies replace.
      idle: instructions that move nothing, but for the ends of loops.
      program: the program.

    Returns:
      The numbers of the copies that are issued an instruction later than XLA issues them.
    """
    events = sorted(
        [(place, False, copy) for copy, (place, _) in enumerate(copies) if place >= 0]
        + [(waits[place], True, copy) for copy, (place, _) in enumerate(copies) if place in waits]
    )
    starts: dict[int, int] = {}
    later: set[int] = set()
    waited = issued = 0
    passed_over = replaced | idle
    written: dict[int, tuple[int, int]] = {}  # buffer -> its last write-back: the end, and the number of the copy
    for _, is_wait, copy in events:
        buffer, direction, start, end, *_, source, _ = copies[copy][1]
        if is_wait:
            waited = max(waited, end)
            if direction == WRITE_BACK:
                written[buffer] = end, copy
            continue
        after = start
        if start + 1 < waited <= end and all(t in passed_over for t in range(start + 1, waited)):
            after = waited - 1
        written_by, back = written.get(source, (-1, -1))
        if direction == PREFETCH and written_by == after + 1 and _same_loop(program, after):
            if after + 1 < end - 1:
                after += 1
                later.add(copy)
            else:
                _end_earlier(copies, back)
        if after < issued < end and all(t in idle for t in range(after + 1, issued + 1)):
            after = issued
        issued = max(issued, after)
        if after > start:
            starts[copy] = after
    for copy, after in starts.items():
        place, (buffer, direction, start, end, low, high, *rest) = copies[copy]
        copies[copy] = place, (buffer, direction, after, end, low, high, *rest)
        for number, row in enumerate(residencies):
            if direction != WRITE_BACK and (row[0], row[1], *row[4:]) == (buffer, start + 1, low, high):
                residencies[number] = (buffer, after + 1, *row[2:])
    if not later:
        return later
    places = {copies[copy][0] for copy in later}
    copies.sort(key=lambda copy: (copy[1][2], copy[0]))
    return {copy for copy, (place, _) in enumerate(copies) if place in places}


def _end_earlier(copies: list[Placed], copy: int) -> None:
    """Ends a copy one instruction earlier, in place, unless it would then have no instruction to run beside."""
    place, (buffer, direction, start, end, *rest) = copies[copy]
    if start < end - 2:
        copies[copy] = place, (buffer, direction, start, end - 1, *rest)


def _same_loop(program: Program, instruction: int) -> bool:
    """Returns whether an instruction and the next are in one loop, or in none."""
    return int(program.loop[max(instruction, 0)]) == int(program.loop[instruction + 1])
