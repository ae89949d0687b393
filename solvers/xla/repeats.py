"""Layers that repeat in the schedule, such as those of a network (XLA: `IdentifyAndOptimizeMemoryBoundLoops`)."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...env.program.program import OPERAND, RESULT, Program
from .options import KEPT

_SHORTEST, _LONGEST = 4, 400
_HEAD_START = 10  # a repetition may begin so many times before the instruction that reveals it

Fingerprint = tuple[object, ...]


@dataclass(frozen=True)
class Repeat:
    """Times `first..last` of the schedule, which repeat with a period of `size` times."""

    first: int
    last: int
    size: int

    @property
    def iterations(self) -> float:
        """The number of repetitions, fractions included."""
        return (self.last + 1 - self.first) / self.size


def _rounded(value: float) -> str:
    """Returns a number with fewer digits than the compiler's log has: the last ones vary."""
    return f"{value:.4g}"


class _Sequence:
    """The schedule by time: for each time its instruction and a fingerprint of it, or None for neither."""

    def __init__(self, program: Program) -> None:
        self.loop: NDArray[np.int32] = program.loop
        end = int(program.schedule_index[-1]) + 1
        self.instruction: list[int | None] = [None] * end
        self.prints: list[Fingerprint | None] = [None] * end
        self.distances: list[tuple[int, ...]] = [()] * end
        written: dict[int, int] = {}  # buffer -> time of its last writer
        for t, time in enumerate(program.schedule_index.tolist()):
            begin, after = program.access_start[t], program.access_start[t + 1]
            rows = range(begin, after)
            self.instruction[time] = t
            self.prints[time] = (
                program.opcodes[t],
                _rounded(program.compute_s[t]),
                _rounded(program.bytes_total[t]),
                *(
                    (
                        int(program.access_kind[a]),
                        int(program.access_number[a]),
                        program.access_path[a],
                        _rounded(program.access_bytes[a]),
                        int(program.size[program.access_buffer[a]]),
                    )
                    for a in rows
                ),
            )
            distances = []
            for a in rows:
                if program.access_kind[a] == OPERAND:
                    writer = written.get(int(program.access_buffer[a]), -1)
                    distances.append(time - writer if writer >= 0 else -1)
            self.distances[time] = tuple(distances)
            for a in rows:
                if program.access_kind[a] == RESULT:
                    written[int(program.access_buffer[a])] = time

    def alike(self, early: int, late: int) -> bool:
        """Returns whether two times hold the same operation on operands of the same age, in one loop."""
        a, b = self.instruction[early], self.instruction[late]
        if a is None or b is None:
            return a is None and b is None
        if self.prints[early] != self.prints[late] or self.loop[a] != self.loop[b]:
            return False
        return all(
            x in (-1, y) or y == -1 or x + late - early == y
            for x, y in zip(self.distances[early], self.distances[late], strict=True)
        )


@lru_cache(maxsize=KEPT)
def find_repeats(program: Program, least: float) -> tuple[Repeat, ...]:
    """Returns the runs of at least `least` repetitions, first to last."""
    sequence = _Sequence(program)
    end = len(sequence.instruction)
    seen: dict[Fingerprint, int] = {}
    found = []
    time = 0
    while time < end:
        size, time = _candidate(sequence, seen, time)
        if size < 0:
            break
        repeat = _scan(sequence, time, size)
        if repeat is not None and repeat.iterations >= least:
            found.append(repeat)
        time = max(time, -1 if repeat is None else repeat.last) + 1
    return tuple(found)


def _candidate(sequence: _Sequence, seen: dict[Fingerprint, int], time: int) -> tuple[int, int]:
    """Returns the period of the next operation that was seen before, and its time; a period of -1 for none."""
    while time < len(sequence.instruction):
        fingerprint = sequence.prints[time]
        if fingerprint is not None:
            before = seen.get(fingerprint)
            seen[fingerprint] = time
            if before is not None and _SHORTEST <= time - before <= _LONGEST:
                return time - before, time
        time += 1
    return -1, time


def _scan(sequence: _Sequence, time: int, size: int) -> Repeat | None:
    """Returns the run of repetitions around `time` with a period of `size`, if there is one."""
    first = None
    last = -1
    for t in range(max(0, time - size - _HEAD_START), len(sequence.instruction)):
        if first is None:
            if t > time - size or t + size >= len(sequence.instruction):
                return None
            if sequence.instruction[t] is None or sequence.instruction[t + size] is None:
                continue
            if not sequence.alike(t, t + size):
                continue
            first = t
        elif t >= first + size and not sequence.alike(t - size, t):
            break
        last = t
    return None if first is None else Repeat(first, last, size)
