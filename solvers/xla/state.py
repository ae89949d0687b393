"""The state of an assignment: stays, copies and slices decided so far, and the results that an attempt may have."""

from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.kernel import routine
from ...env.compiled.struct import Rows, Struct, new_record, one, part, rows
from . import copy_resource
from . import heap as heaps
from .copy_resource import CopyResource
from .heap import Heap
from .interval_picker import PICKER
from .problem import Problem

# A value in one memory over an interval of times (XLA: `Allocation`; with a copy, `CopyAllocation`).
STAY = np.dtype(
    [
        ("value", np.int64),
        ("memory", np.int64),  # HBM or FAST
        ("start", np.int64),  # first time; with a copy, the time after the copy's start
        ("end", np.int64),  # last time
        ("offset", np.int64),  # in fast memory, else NO_OFFSET
        ("group", np.int64),  # the stay whose offset it must keep, itself for one of its own
        ("is_copied", np.int64),  # 1: a copy fills it
        ("begin", np.int64),  # time after which the copy starts
        ("done", np.int64),  # time before which the copy is complete
        ("first_slice", np.int64),  # of its slices in `State.slice`
        ("slices", np.int64),  # their number, 0 for none
        ("cross", np.int64),  # 1: the previous execution prefetches it; 2: this one prefetches it for the next
        ("replaces", np.int64),  # 1: the copy that fills it replaces the synchronous one that defines the value
    ],
    align=True,
)
# A slice of a prefetch, in the order of start.
SLICE = np.dtype(
    [
        ("begin", np.int64),  # time after which its copy starts
        ("low", np.int64),  # its lowest byte in the buffer
        ("bytes", np.int64),
    ],
    align=True,
)
# A slice of the prefetch at hand: one field is by its place in the buffer, the others by its turn.
CUT = np.dtype(
    [
        ("bytes", np.int64),  # of the slice at this place, lowest bytes first
        ("turn", np.int64),  # of the slice at this place in a copy that is moved; -1 in a new one
        ("free", np.int64),  # scratch: turns of slices that may come in another order
        ("start", np.int64),  # time after which the slice of this turn starts, ascending
        ("tried", np.int64),  # the place of the slice of this turn, in the fit tried last
        ("chosen", np.int64),  # the same of the fit that was accepted
    ],
    align=True,
)
# A copy made for the buffer at hand, which an undo removes.
PENDING = np.dtype(
    [
        ("outward", np.int64),  # 1 for a write-back, 0 for a prefetch
        ("begin", np.int64),  # time after which it starts
        ("done", np.int64),  # time before which it is complete
    ],
    align=True,
)
# What is decided on a value.
HELD = np.dtype(
    [
        ("first_stay", np.int64),
        ("end_stay", np.int64),  # the stay after its last
        ("memory", np.int64),  # in which it must begin: HBM, FAST or FREE
        ("offset", np.int64),  # at which it must begin, in fast memory
        ("group", np.int64),  # that it continues there
        ("home", np.int64),  # where it begins in fast memory: NO_HOME, OWN_HOME or MIRRORED_HOME
        ("is_out", np.int64),  # 1: it must begin in HBM, as it would be inefficient in fast memory
        ("chain", np.int64),  # scratch: the chain of stays that it continues in place, or -1
        ("color", np.int64),  # the memory that its definition must be in: HBM, FAST or FREE
        ("first_reserved", np.int64),  # its reservations in `State.reservation`
        ("end_reserved", np.int64),  # the reservation after its last
    ],
    align=True,
)
# What is decided on a use.
SERVED = np.dtype(
    [
        ("stay", np.int64),  # that serves it, or -1
        ("is_out", np.int64),  # 1: it must be served from HBM, by a wish or as fast memory would be inefficient
        ("color", np.int64),  # the memory that it must be served from: HBM, FAST or FREE
    ],
    align=True,
)
# Memory that is kept free for a colored value at one time.
RESERVATION = np.dtype(
    [
        ("time", np.int64),
        ("offset", np.int64),
        ("bytes", np.int64),
        ("chunk", np.int64),  # of the heap; -1 once it is given up
    ],
    align=True,
)
# Scratch of the search for inefficient stays. One field is by stay, the others by chain: stays linked in place.
LINKED = np.dtype(
    [
        ("chain", np.int64),  # of the stay, or -1
        ("copied", np.int64),  # bytes copied for the chain
        ("served", np.int64),  # bytes that its uses and definitions move
    ],
    align=True,
)
# Scratch of a repack, by stay.
MOVED = np.dtype(
    [
        ("first", np.int64),  # the first stay of the group of this number, or -1
        ("last", np.int64),  # the last one
        ("next", np.int64),  # the stay after this one in its group, or -1
        ("leader", np.int64),  # the first stays of all groups, one after the other, in the order of placing
        ("end", np.int64),  # last time of the group
        ("offset", np.int64),  # new
    ],
    align=True,
)
# What is decided on a buffer.
TURN = np.dtype(
    [
        ("is_over", np.int64),  # 1: it has been placed, or could not be
        ("is_fixed", np.int64),  # 1: the copy that makes it is not converted
    ],
    align=True,
)
STATE_NOW = np.dtype(
    [
        ("stays", np.int64),  # rows of `stay` in use
        ("slices", np.int64),  # rows of `slice` in use
        ("pending", np.int64),  # rows of `pending` in use
        ("repacks", np.int64),  # made
        ("reservations", np.int64),  # rows of `reservation` in use
        ("members", np.int64),  # of `group`
        ("moments", np.int64),  # of `joint`
        ("converted", np.int64),  # 1: copies have been converted
        # The use at hand.
        ("buffer", np.int64),
        ("value", np.int64),
        ("use", np.int64),
        ("retry", np.int64),  # attempts before this one
        ("preferred_time", np.int64),  # start of a prefetch to try first, or `NEVER`
        ("latest", np.int64),  # latest end of a prefetch, beside that for the use
        # Within a loop that finds the value in fast memory: the offset at which it has to be, and the group; else
        # NO_OFFSET and -1.
        ("offset", np.int64),
        ("group", np.int64),
    ],
    align=True,
)

# Results of an attempt, as bits (XLA: `AllocationResult`).
DONE = 0  # kSuccess
NO_MEMORY = 1  # kFailOutOfMemory
NOT_FAST = 2  # kFailPrevAllocationNotInAlternateMem
TOO_LONG = 4  # kFailLiveRangeTooLong
TOO_SHORT = 8  # kFailLiveRangeTooShort
NO_COPIES = 16  # kFailOutOfAsyncCopies
NO_BANDWIDTH = 32  # kFailViolatesAsyncCopyResource
UNDO = 64  # kFailRequiresUncommit
TOGETHER = 128  # kAllSlicesHaveTheSameStartTime
NOT_CONVERTED = 256  # kFailSyncDataMoveReplacement
CONFLICT = 512  # kFailConflictingPreferredOffsets

# Whether HBM has a value as well that begins in fast memory: no; yes; or yes, and it is that of the value before a loop
# (XLA: `ParentAllocation`, `MirroredAllocation`).
NO_HOME, OWN_HOME, MIRRORED_HOME = range(3)

# Memories of a stay, and of the place where a value must begin; FREE: either.
FREE, HBM, FAST = -1, 0, 1

MOST_PERMUTED = 4  # slices of which all orders are tried (XLA: `all_slice_time_permutations_threshold`)
PERMUTATIONS = 24


class State(Struct):
    """All that an assignment changes. Shapes: `V` values, `U` uses, `M` slices of a prefetch.

    Attributes:
      heap: the chunks of fast memory in use.
      spare: a second heap, for repacking.
      prefetches, write_backs: the copies of each direction.
      stay: of `STAY`; the stays of a value follow one another.
      slice: of `SLICE`.
      pending: of `PENDING`.
      value: `[V]` of `HELD`.
      use: `[U]` of `SERVED`.
      cut: `[M]` of `CUT`.
      linked: of `LINKED`, as long as `stay`.
      moved: of `MOVED`, as long as `stay`.
      moved_slice: of `SLICE`, the slices after a repack.
      key, spare_key: scratch of a repack's sorting, as long as `stay`.
      picker: `PICKER` of the prefetch at hand.
      permutation: permutations of 1 to `MOST_PERMUTED` items; those of `n` items begin at
        `(n - 1) * PERMUTATIONS * MOST_PERMUTED`, each `MOST_PERMUTED` long.
      reservation: of `RESERVATION`.
      turn: of `TURN`, by buffer.
      group: buffers that are placed together.
      joint: the moments of a group.
      other: scratch of `sort`, as long as `joint`.
      edge: `[S + 4]` 1 for a time, plus 1, right before or right after a stay of a buffer that is placed for good.
      now: `STATE_NOW`.
    """

    heap: Heap = part(Heap)
    spare: Heap = part(Heap)
    prefetches: CopyResource = part(CopyResource)
    write_backs: CopyResource = part(CopyResource)
    stay: Rows = rows(STAY)
    slice: Rows = rows(SLICE)
    pending: Rows = rows(PENDING)
    value: Rows = rows(HELD)
    use: Rows = rows(SERVED)
    cut: Rows = rows(CUT)
    linked: Rows = rows(LINKED)
    moved: Rows = rows(MOVED)
    moved_slice: Rows = rows(SLICE)
    key: Rows = rows(np.int64)
    spare_key: Rows = rows(np.int64)
    picker: Any = one(PICKER)
    permutation: Rows = rows(np.int64)
    reservation: Rows = rows(RESERVATION)
    turn: Rows = rows(TURN)
    group: Rows = rows(np.int64)
    joint: Rows = rows(np.int64)
    other: Rows = rows(np.int64)
    edge: Rows = rows(np.int8)
    now: Any = one(STATE_NOW)


class Wishes(Struct):
    """What an assignment is asked for. Shapes: `V` values, `U` uses.

    Attributes:
      order: the buffers to place, first to last.
      cross: inputs to prefetch across programs, placed before all others.
      preferred_time: `[U]` preferred starts of prefetches, or `NEVER`.
      in_hbm: `[U]` 1 where a use must be served from HBM.
      value_color: `[V]` the memory that a definition must be in: HBM, FAST or FREE.
      use_color: `[U]` the memory that a use must be served from.
    """

    order: Rows = rows(np.int64)
    cross: Rows = rows(np.int64)
    preferred_time: Rows = rows(np.int64)
    in_hbm: Rows = rows(np.int8)
    value_color: Rows = rows(np.int8)
    use_color: Rows = rows(np.int8)


def _permutations() -> NDArray[np.int64]:
    table = np.zeros((MOST_PERMUTED, PERMUTATIONS, MOST_PERMUTED), np.int64)
    for size in range(1, MOST_PERMUTED + 1):
        for row, found in enumerate(permutations(range(size))):
            table[size - 1, row, :size] = found
    return table.reshape(-1)


_PERMUTATIONS = _permutations()


def size_of(problem: Problem) -> tuple[int, int]:
    """Returns the most copies of an assignment, and the most slices of one: what of a state depends on options."""
    sliced = problem.buffer["slices"]
    read = problem.value["end_use"] - problem.value["first_use"]
    return 2 * len(problem.value) + int((sliced[problem.value["buffer"]] + 1) @ read), int(sliced.max(initial=0))


def make_state(problem: Problem, factor: int = 1) -> State:
    """Returns an empty state.

    Args:
      problem: the program.
      factor: multiple of the heap's usual size; larger where `is_full` has said that it ran out.
    """
    times, values, uses = len(problem.nest), len(problem.value), len(problem.use)
    copies, cuts = size_of(problem)
    stays = 3 * values + 2 * uses + 16
    chunks = factor * (stays + copies + uses)
    links = factor * (6 * chunks + 8 * times)
    return State(
        heap=heaps.make_heap(times, chunks, links),
        spare=heaps.make_heap(times, chunks, links),
        prefetches=copy_resource.make_resource(problem.supply, copies + 16, 4 * factor * (copies + 16)),
        write_backs=copy_resource.make_resource(problem.supply, copies + 16, copies + 16),
        stay=np.zeros(stays, STAY),
        slice=np.zeros(copies + 16, SLICE),
        pending=np.zeros(copies + 16, PENDING),
        value=np.zeros(values, HELD),
        use=np.zeros(uses, SERVED),
        cut=np.zeros(cuts + 2, CUT),
        linked=np.zeros(stays, LINKED),
        moved=np.zeros(stays, MOVED),
        moved_slice=np.zeros(copies + 16, SLICE),
        key=np.zeros(stays, np.int64),
        spare_key=np.zeros(stays, np.int64),
        picker=new_record(PICKER),
        permutation=_PERMUTATIONS,
        reservation=np.zeros(values + uses, RESERVATION),
        turn=np.zeros(len(problem.buffer), TURN),
        group=np.zeros(len(problem.buffer) + 1, np.int64),
        joint=np.zeros(len(problem.moment) + 1, np.int64),
        other=np.zeros(len(problem.moment) + 1, np.int64),
        edge=np.zeros(times + 4, np.int8),
        now=new_record(STATE_NOW),
    )


@routine
def reset(problem: Problem, state: State) -> None:
    """Empties a state, but for the bytes that instructions keep to themselves."""
    heaps.start_over(problem, state.heap)
    copy_resource.clear(state.prefetches)
    copy_resource.clear(state.write_backs)
    now = state.now
    now.stays = now.slices = now.pending = now.repacks = now.converted = 0
    now.members, now.latest = 1, 1 << 60
    for buffer in range(len(state.turn)):
        state.turn[buffer].is_over = state.turn[buffer].is_fixed = 0
    for time in range(len(state.edge)):
        state.edge[time] = 0
    for number in range(len(state.value)):
        value = state.value[number]
        value.first_stay = value.end_stay = value.is_out = 0
        value.memory = FREE
    for number in range(len(state.use)):
        use = state.use[number]
        use.stay, use.is_out = -1, 0


@routine
def add_stay(state: State, value: int, memory: int, start: int, end: int, offset: int, group: int) -> int:
    """Adds a stay without a copy and returns its number; a `group` of -1 stands for a group of its own."""
    number = state.now.stays
    state.now.stays += 1
    stay = state.stay[number]
    stay.value, stay.memory, stay.start, stay.end, stay.offset = value, memory, start, end, offset
    stay.group = number if group < 0 else group
    stay.is_copied = stay.begin = stay.done = stay.first_slice = stay.slices = stay.cross = stay.replaces = 0
    state.value[value].end_stay = number + 1
    return number


@routine
def add_copy(state: State, outward: int, begin: int, done: int, need: int, counted: int) -> None:
    """Adds a copy to the resource of its direction; it counts as in flight from the time `counted` on."""
    copy_resource.add(state.write_backs if outward else state.prefetches, begin, done, need, counted)
    pending = state.pending[state.now.pending]
    state.now.pending += 1
    pending.outward, pending.begin, pending.done = outward, begin, done


@routine
def fill_by_copy(state: State, number: int, begin: int, done: int, need: int) -> None:
    """Makes a copy as a whole fill a stay, and adds it to the resource of its direction."""
    stay = state.stay[number]
    stay.is_copied, stay.begin, stay.done = 1, begin, done
    add_copy(state, 0 if stay.memory else 1, begin, done, need, begin + 1)


def is_full(state: State) -> bool:
    """Returns whether a table overflowed; the state is meaningless then."""
    return bool(state.heap.now.is_full or state.prefetches.now.is_full or state.write_backs.now.is_full)


@routine
def note_edges(state: State, stays: int) -> None:
    """Notes the edges of the stays in fast memory after the first `stays` (XLA: `edge_time_indices_`)."""
    for number in range(stays, state.now.stays):
        stay = state.stay[number]
        if stay.memory == FAST:
            state.edge[stay.start] = 1
            state.edge[stay.end + 2] = 1


@routine
def slice_need(problem: Problem, buffer: int, size: int) -> int:
    """Returns the scaled seconds of a copy of `size` bytes of a buffer."""
    row = problem.buffer[buffer]
    return int(row.copy * (size / row.bytes))
