"""Emulates the estimates that the compiler prints of its own mapping, quirks and all (docs/physics-of-extraction.md).

Nothing but a proof that programs and production mappings are extracted right: it is no referee of mappings.
"""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.capture.production import ISSUE, RUN, SKIP, STEP
from mallocmuzero.env.program.mapping import WRITE_BACK, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program


def without_copies(program: Program, mapping: Mapping) -> float:
    """Returns "Estimated elapsed time without async copies" in seconds."""
    fast = _priced_as_fast(program, mapping) + _results_counted_again(program, mapping)
    return float(_elapsed(program, fast * program.access_bytes) @ program.weight) + program.compiler["left_out_s"]


def with_copies(program: Program, mapping: Mapping) -> float:
    """Returns "Estimated elapsed time with async copies" in seconds."""
    fast_bytes = _per_instruction(program, _priced_as_fast(program, mapping) * program.access_bytes)
    elapsed = _elapsed(program, _priced_as_fast(program, mapping) * program.access_bytes)
    idle = elapsed - (program.bytes_total - fast_bytes) / program.target.hbm_bandwidth
    queues = _Queues(program.target.hbm_bandwidth)
    step = program.compiler["step_s"]
    total = 0.0
    instruction = issued = 0
    for event in program.compiler["sequence"]:
        if event == RUN:
            queues.run(float(idle[instruction] * program.weight[instruction]))
            total += float(elapsed[instruction] * program.weight[instruction])
            instruction += 1
        elif event == SKIP:
            instruction += 1
        elif event == STEP:
            queues.run(step)
            total += step
        elif event == ISSUE:
            assert mapping.copies[issued, 2] == instruction - 1, "a copy is issued elsewhere"
            size = float(mapping.copies[issued, 5] - mapping.copies[issued, 4])
            queues.issue(issued, bool(mapping.copies[issued, 1] == WRITE_BACK), size)
            issued += 1
        else:
            assert mapping.copies[event, 3] == instruction, "a copy is waited for elsewhere"
            total += queues.wait(event, bool(mapping.copies[event, 1] == WRITE_BACK))
    assert (instruction, issued) == (program.num_instructions, len(mapping.copies))
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


def _priced_as_fast(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[A]` 1 where the compiler prices an access as fast: all operands it allocated, even in HBM."""
    operand = program.access_kind == OPERAND
    allocated = program.fast_allowed[program.access_buffer]
    # Nor is a buffer that it listed and then left in HBM without an allocation.
    allocated &= ~np.isin(program.access_buffer, program.compiler.get("unallocated", []))
    # A synchronous instruction that a copy replaces is not a use of any allocation.
    allocated &= ~np.isin(program.access_instruction, mapping.copies[:, 7])
    return np.where(operand, allocated, mapping.access_fast).astype(np.float64)


def _sliced_groups(mapping: Mapping) -> set[tuple[int, int]]:
    """Returns buffer and end of every prefetch that is cut into slices."""
    copies = mapping.copies
    whole: dict[tuple[int, int], int] = {}
    for buffer, _, _, end, *_ in copies.tolist():
        whole[buffer, end] = whole.get((buffer, end), 0) + 1
    return {key for key, count in whole.items() if count > 1}


def _results_counted_again(program: Program, mapping: Mapping) -> NDArray[np.float64]:
    """Returns `[A]` how often a result is priced as fast once more: once for every sliced prefetch of its value."""
    again = np.zeros(program.num_accesses)
    results: dict[int, list[int]] = {}
    for access in np.flatnonzero(program.access_kind == RESULT):
        results.setdefault(int(program.access_buffer[access]), []).append(int(access))
    for buffer, end in _sliced_groups(mapping):
        before = [a for a in results.get(buffer, []) if program.access_instruction[a] < end]
        if before:
            again[before[-1]] += 1
    return again


def _per_instruction(program: Program, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(program.access_instruction, values, program.num_instructions)


def _elapsed(program: Program, fast: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `[T]` seconds; `fast` are the `[A]` bytes priced as fast, which may exceed what the instruction moves."""
    moved = _per_instruction(program, fast)
    target = program.target
    memory = (program.bytes_total - moved) / target.hbm_bandwidth + moved / target.fast_bandwidth
    return np.maximum(program.compute_s, memory)


def main() -> None:
    """Prints the table of docs/physics-of-extraction.md."""
    from mallocmuzero.env.workloads import load, names

    print("| program | without copies, printed | emulated | with copies, printed | emulated |\n|---|---|---|---|---|")
    for name in names():
        program = load(name)
        assert program.production is not None
        figures = (
            program.compiler["estimate_without_copies_s"],
            without_copies(program, program.production),
            program.compiler["estimate_with_copies_s"],
            with_copies(program, program.production),
        )
        print(f"| {name} |", " | ".join(f"{seconds * 1e6:.2f}" for seconds in figures), "|")


if __name__ == "__main__":
    main()
