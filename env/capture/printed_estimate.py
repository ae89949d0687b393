"""Emulates the two estimates that the compiler prints of its own mapping, slips and all (pipeline step 5).

The emulation proves that a program and its production mapping are read back right; it does not judge mappings.
docs/physics-of-extraction.md lists the slips.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from ..program.mapping import WRITE_BACK, Mapping
from ..program.program import OPERAND, RESULT, Program
from .simulator_events import CHARGE, ISSUE, RUN, SKIP, STEP

# An estimate that is off by more than this share shows that the program was not read back right.
TOLERANCE = 1e-3
# Name of an estimate -> field of `Program.compiler` with the printed seconds.
PRINTED = {"without_copies": "estimate_without_copies_s", "with_copies": "estimate_with_copies_s"}


class EstimateError(ValueError):
    """The compiler's events do not fit the mapping: the message says which."""


def estimates_off(program: Program, mapping: Mapping) -> dict[str, float | None]:
    """Returns how far the emulated estimates are off the printed ones.

    Args:
      program: the program, with the compiler's figures.
      mapping: the mapping that the compiler estimated.

    Returns:
      By name of `PRINTED`, the share of the printed seconds; None where the compiler's events do not fit the mapping.
    """
    found: dict[str, float | None] = {}
    for name, emulate in (("without_copies", without_copies), ("with_copies", with_copies)):
        printed = float(program.compiler[PRINTED[name]])
        try:
            found[name] = emulate(program, mapping) / printed - 1.0
        except EstimateError:
            found[name] = None
    return found


def without_copies(program: Program, mapping: Mapping) -> float:
    """Returns "Estimated elapsed time without async copies" in seconds."""
    fast = _priced_as_fast(program, mapping) + _results_counted_again(program, mapping)
    charged = sum(seconds * passes for seconds, _, passes in program.compiler.get("charges", ()))
    instructions = float(_elapsed(program, fast * program.access_bytes) @ program.weight)
    return instructions + charged + program.compiler["left_out_s"] + program.compiler.get("beside_s", 0.0)


def with_copies(program: Program, mapping: Mapping) -> float:
    """Returns "Estimated elapsed time with async copies" in seconds.

    Inside loops every event lets copies move for one pass, while its seconds count for all passes.

    Raises:
      EstimateError: the compiler's events do not fit the mapping.
    """
    fast_bytes = _per_instruction(program, _priced_as_fast(program, mapping) * program.access_bytes)
    elapsed = _elapsed(program, _priced_as_fast(program, mapping) * program.access_bytes)
    idle = elapsed - (program.bytes_total - fast_bytes) / program.target.hbm_bandwidth
    queues = _Queues(program.target.hbm_bandwidth)
    step = program.compiler["step_s"]
    step_trips = deque(program.compiler.get("step_trips", ()))
    charges = deque(program.compiler.get("charges", ()))
    copies = mapping.copies.tolist()
    total = 0.0
    instruction = issued = 0
    for event in program.compiler["sequence"]:
        if event == RUN:
            queues.run(float(idle[instruction]))
            total += float(elapsed[instruction] * program.weight[instruction])
            instruction += 1
        elif event == SKIP:
            instruction += 1
        elif event == STEP:
            queues.run(step)
            total += step * (step_trips.popleft() if step_trips else 1)
        elif event == CHARGE:
            seconds, idle_s, passes = charges.popleft()
            queues.run(idle_s)
            total += seconds * passes
        elif event == ISSUE:
            if issued >= len(copies) or copies[issued][2] != instruction - 1:
                raise EstimateError(f"copy {issued} is issued after instruction {instruction - 1}")
            queues.issue(issued, copies[issued][1] == WRITE_BACK, float(copies[issued][5] - copies[issued][4]))
            issued += 1
        else:
            _, direction, start, end, *_ = copies[event]
            if end != instruction:
                raise EstimateError(f"copy {event} is waited for before instruction {instruction}")
            total += queues.wait(event, direction == WRITE_BACK) * _runs(program, start, end)
    if (instruction, issued) != (program.num_instructions, len(copies)):
        raise EstimateError(f"the compiler's events hold {instruction} instructions and {issued} copies")
    return total


class _Queues:
    """The compiler's copy engine: first in, first out per direction, half the bandwidth each while both are busy."""

    def __init__(self, bandwidth: float) -> None:
        self.bandwidth = bandwidth
        self.queues: tuple[deque[list[float]], deque[list[float]]] = (deque(), deque())

    def issue(self, copy: int, back: bool, size: float) -> None:
        self.queues[back].append([copy, size])

    def run(self, seconds: float) -> None:
        """Lets copies move for some time that instructions leave idle."""
        bandwidth = self.bandwidth
        while seconds > 0 and any(self.queues):
            if all(self.queues):
                bandwidth *= 0.5  # compounds from turn to turn: a slip of the compiler's
            size = min([bandwidth * seconds] + [queue[0][1] for queue in self.queues if queue])
            seconds -= size / bandwidth
            self._move(size)

    def wait(self, copy: int, back: bool) -> float:
        """Returns the seconds until `copy` is done."""
        seconds = 0.0
        mine, other = self.queues[back], self.queues[not back]
        while any(entry[0] == copy for entry in mine):
            bandwidth = self.bandwidth * (0.5 if other else 1.0)
            size = min(queue[0][1] for queue in (mine, other) if queue)
            seconds += size / bandwidth
            self._move(size)
        return seconds

    def _move(self, size: float) -> None:
        for queue in self.queues:
            if queue:
                queue[0][1] -= size
                if queue[0][1] <= 0:
                    queue.popleft()


def _runs(program: Program, start: int, end: int) -> float:
    """Returns how often a copy from `start` to `end` runs: the passes of the innermost loop that it does not leave."""
    loop = int(program.loop[start]) if start >= 0 else -1
    while loop >= 0:
        last = int(program.loop_last[loop])
        if end <= last or (start < last and end == last + 1):
            break
        loop = int(program.loop_parent[loop])
    runs = 1.0
    while loop >= 0:
        runs *= float(program.loop_trips[loop])
        loop = int(program.loop_parent[loop])
    return runs


def _priced_as_fast(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[A]` 1 where the compiler prices an access as fast: all operands it allocated, even in HBM."""
    operand = program.access_kind == OPERAND
    listed = program.compiler.get("allocated_operands")
    if listed is not None:
        return np.where(operand, np.isin(np.arange(program.num_accesses), listed), mapping.access_fast).astype(float)
    # Files of earlier captures do not list them.
    allocated = program.fast_allowed[program.access_buffer]
    # A buffer that the compiler listed and then left in HBM has no allocation.
    allocated &= ~np.isin(program.access_buffer, program.compiler.get("unallocated", []))
    # A synchronous instruction that a copy replaces is not a use of any allocation.
    allocated &= ~np.isin(program.access_instruction, mapping.copies[:, 7])
    return np.where(operand, allocated, mapping.access_fast).astype(np.float64)


def _results_counted_again(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[A]` how often a result is priced as fast once more: once for every sliced prefetch of its value."""
    again = np.zeros(program.num_accesses)
    listed = program.compiler.get("results_counted_again")
    if listed is not None:
        np.add.at(again, np.array(listed, int), 1.0)
        return again
    results: dict[int, list[int]] = {}
    for access in np.flatnonzero(program.access_kind == RESULT):
        results.setdefault(int(program.access_buffer[access]), []).append(int(access))
    for buffer, end in _sliced_groups(mapping):
        before = [a for a in results.get(buffer, []) if program.access_instruction[a] < end]
        if before:
            again[before[-1]] += 1
    return again


def _sliced_groups(mapping: Mapping) -> set[tuple[int, int]]:
    """Returns buffer and end of every prefetch that is cut into slices."""
    whole: dict[tuple[int, int], int] = {}
    for buffer, _, _, end, *_ in mapping.copies.tolist():
        whole[buffer, end] = whole.get((buffer, end), 0) + 1
    return {key for key, count in whole.items() if count > 1}


def _per_instruction(program: Program, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(program.access_instruction, values, program.num_instructions).astype(np.float64)


def _elapsed(program: Program, fast: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `[T]` seconds; `fast` are the `[A]` bytes priced as fast, which may exceed what the instruction moves."""
    moved = _per_instruction(program, fast)
    target = program.target
    memory = (program.bytes_total - moved) / target.hbm_bandwidth + moved / target.fast_bandwidth
    return np.maximum(program.compute_s, memory)
