"""The order in which buffers are placed (XLA: `MemoryBoundednessBufferIntervalComparator`)."""

from collections.abc import Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...env.program.assignment_facts import assignment_facts
from ...env.program.program import OPERAND, RESULT, Program
from ...env.program.target import Target
from .cost_analysis import bandwidths, memory_s
from .options import KEPT, Options
from .problem import Problem
from .schedule import Times, depth, schedule


@lru_cache(maxsize=KEPT)
def memory_boundedness(program: Program, target: Target, while_trips: float) -> NDArray[np.float32]:
    """Returns `[N]` the memory boundedness of each buffer: seconds over the square root of its bytes.

    An access to an instruction that is bound by memory counts the seconds it saves from fast memory, once per trip of a
    loop; any other counts negative, the seconds by which its instruction is bound by compute (XLA:
    `CostAnalysis::GetMemoryBoundedness`).
    """
    t = program.access_instruction
    memory, alone = memory_s(program, target)
    compute = program.compute_s.astype(np.float32)[t]
    loops = depth(program, program.loop.astype(np.int64), repeated=True)
    trips = np.float32(while_trips) ** loops[t].astype(np.float32)
    benefit = np.where(memory > compute, (memory - alone) * trips, memory - compute)
    total = np.zeros(program.num_buffers, np.float32)
    started = program.definition < 0  # no instruction defines an input: its definition gains nothing
    for access, buffer in enumerate(program.access_buffer.tolist()):
        if program.access_kind[access] == RESULT:
            if not started[buffer]:
                started[buffer], total[buffer] = True, benefit[access]
        elif benefit[access] > 0 and total[buffer] > 0:
            total[buffer] += benefit[access]
        else:
            total[buffer] = max(total[buffer], benefit[access])
    # The tuple that returns an output is a use of zero seconds.
    total = np.where(program.is_output, np.maximum(total, np.float32(0.0)), total)
    scaled: NDArray[np.float32] = total / np.sqrt(np.maximum(program.size, 1).astype(np.float32))
    return scaled


def lifetimes(program: Program, problem: Problem, times: Times) -> NDArray[np.int64]:
    """Returns `[N, 3]` rank of each buffer's definition, rank of its end, and time of its last use.

    Ranks are among all definitions and ends; XLA breaks ties by these ranks and not by times (`HeapSimulator`).
    """
    first, last = problem.buffer["first_value"], problem.buffer["end_value"]
    lived = first < last
    none = np.zeros(len(first), np.int64)
    begin, end = none.copy(), none.copy()
    begin[lived], end[lived] = problem.value["first_use"][first[lived]], problem.value["end_use"][last[lived] - 1]
    used = problem.use["time"]
    start, stop = none.copy(), none.copy()
    start[lived] = problem.value["time"][first[lived]]
    stop = np.maximum(_latest(used, begin, end, start), _latest(problem.value["time"], first, last, start))
    held = lived & (program.definition < 0)  # an input is held through the program
    start[held], stop[held] = -1, times.end + 1
    used_last = _latest(used, begin, end, none)
    # Values that a loop links share one buffer, and its first value has the turn. It counts as held to the end, and as
    # last used where it enters the loop: XLA's log has such buffers in the order of their definitions.
    linked = np.unique(problem.value["buffer"][problem.value["enters"] == 1])
    linked = linked[~held[linked]]
    stop[linked], used_last[linked] = times.end + 1, 0
    buffers = np.arange(program.num_buffers)
    kind = np.repeat([0, 1], program.num_buffers)
    order = np.lexsort((np.tile(buffers, 2), kind, np.concatenate([start, stop])))
    count = np.empty(len(order), np.int64)
    count[order] = np.arange(len(order))
    return np.column_stack([*count.reshape(2, -1), used_last])


def _latest(
    times: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64], least: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Returns `[N]` the largest of `times[begin:end]` and `least`, row by row."""
    padded = np.append(times, np.iinfo(np.int64).min)
    found: NDArray[np.int64] = np.maximum.reduceat(padded, np.column_stack([begin, end]).ravel())[::2]
    return np.where(begin < end, np.maximum(found, least), least)


def _last_operand_number(program: Program) -> NDArray[np.int64]:
    """Returns `[N]` the operand number at the last read of an input, 0 for other buffers: XLA numbers inputs by it."""
    number = np.zeros(program.num_buffers, np.int64)
    reads = program.access_kind == OPERAND
    number[program.access_buffer[reads]] = program.access_number[reads]  # the last one stands
    return np.where(program.definition < 0, number, 0)


def _as_logged(order: NDArray[np.int64], logged: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns all buffers as the compiler's log orders them; one that it lacks keeps the one before it in `order`."""
    turn = np.full(len(order), -1, np.int64)
    turn[logged] = np.arange(len(logged))
    at = np.arange(len(order))
    known = turn[order] >= 0
    after = np.maximum.accumulate(np.where(known, at, -1))
    turns = np.where(after >= 0, turn[order[np.maximum(after, 0)]], -1)
    return order[np.lexsort((at, ~known, turns))]


# What is the same under all options, of programs in use.
_kept: WeakKeyDictionary[Program, dict[Target, tuple[NDArray[np.int64], NDArray[np.int64]]]] = WeakKeyDictionary()


class BufferOrder:
    """The order of a program's buffers, with the keys that all decodes share."""

    def __init__(self, program: Program, target: Target, options: Options, problem: Problem) -> None:
        """Computes the keys."""
        known = _kept.setdefault(program, {})
        if target not in known:
            times = schedule(program, target)
            known[target] = lifetimes(program, problem, times), _last_operand_number(program)
        lives, last_operand = known[target]
        keys = (
            np.arange(program.num_buffers),
            lives[:, 0],
            last_operand,
            lives[:, 2],
            lives[:, 0] - lives[:, 1],
            -program.size,
            -memory_boundedness(program, target, options.while_trips),
        )
        facts = assignment_facts(program)
        same = options.while_trips == Options().while_trips and bandwidths(target) == bandwidths(program.target)
        self._rank: NDArray[np.int64] = np.empty(program.num_buffers, np.int64)
        order = np.lexsort(keys)
        self._rank[order if facts is None or not same else _as_logged(order, facts.order)] = np.arange(len(order))
        used = np.zeros(program.num_buffers, bool)
        used[program.access_buffer[program.access_kind == OPERAND]] = True
        fits = program.fast_size <= problem.limit.fast_bytes
        self._placed: NDArray[np.bool_] = program.fast_allowed & fits & (used | program.is_output)

    def buffers(
        self, priority: NDArray[np.float64] | NDArray[np.int64] | None = None, without: Sequence[int] = ()
    ) -> NDArray[np.int64]:
        """Returns the buffers to place, first to last.

        Args:
          priority: `[N]` the first key, lower first; a buffer with an infinite one is not placed. None: all equal.
          without: buffers to leave out.
        """
        order = np.lexsort((self._rank,) if priority is None else (self._rank, np.asarray(priority)))
        placed = self._placed.copy()
        placed[list(without)] = False
        if priority is not None:
            placed &= np.isfinite(priority)
        return order[placed[order]].astype(np.int64)
