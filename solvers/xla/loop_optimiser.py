"""Repeated layers: one is planned as the body of a loop, and all follow it (XLA: `MemoryBoundLoopOptimizer`)."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...env.program.program import OPERAND, RESULT, Program
from ...env.program.target import Target
from .options import KEPT, Options
from .problem import M_DEFAULT, M_KEEP, Accesses, Problem
from .repeats import Repeat, find_repeats

_TEMPORARY, _PINNED, _PREFETCH = range(3)


@dataclass
class _LoopValue:
    """A buffer that the layer uses (XLA: `LoopValue`). An index is a time, counted from the start of the layer.

    Attributes:
      buffer, size: number and bytes.
      kind: `_TEMPORARY`, written in the layer; `_PINNED`, the same in all layers; `_PREFETCH`, read in one only.
      born: index at which the layer writes it, or None.
      uses: index and access of each use in the layer.
      later: index and access of each use in the next layer.
      worth: bytes saved per byte held.
      mode: decision for the uses without a prefetch, `M_*`.
      start: decision for a prefetch: indices at which it starts, and by which it is complete; None for none.
    """

    buffer: int
    size: int
    kind: int
    born: int | None
    uses: list[tuple[int, int]]
    later: list[tuple[int, int]]
    worth: float
    mode: int = M_DEFAULT
    start: tuple[int, int] | None = None
    served: set[int] = field(default_factory=set)


def optimise(program: Program, target: Target, options: Options, problem: Problem, accesses: Accesses) -> None:
    """Sets modes and preferred times of the uses in repeated layers, in `problem`."""
    repeats = find_repeats(program, options.loop_min_iterations)
    if not repeats:
        return
    of_access = np.full(program.num_accesses, -1, np.int64)
    of_access[accesses.links[:, 1]] = accesses.links[:, 0]
    uses = of_access.tolist()
    for repeat in repeats:
        layer = _Layer(program, target, options, problem, repeat)
        for value in layer.plan():
            _export(program, problem, uses, repeat, value)


@lru_cache(maxsize=KEPT)
def _operands(program: Program) -> dict[tuple[int, int, str], list[int]]:
    """Returns the accesses that read, by the time, the number and the path of the operand."""
    found: dict[tuple[int, int, str], list[int]] = {}
    times = program.schedule_index[program.access_instruction].tolist()
    columns = times, program.access_number.tolist(), program.access_path, program.access_kind.tolist()
    for access, (time, number, path, kind) in enumerate(zip(*columns, strict=True)):
        if kind == OPERAND:
            found.setdefault((time, number, path), []).append(access)
    return found


def _export(program: Program, problem: Problem, uses: list[int], repeat: Repeat, value: _LoopValue) -> None:
    """Writes the decisions on a value to the uses in all layers; `uses` gives the use of each access, or -1."""
    operands = _operands(program)
    mode, preferred_time, ends = problem.use["mode"], problem.preferred_time, problem.use["time"]
    known, used = set(), {index for index, _ in value.uses}
    for index, access in value.uses + [(i, a) for i, a in value.later if i not in used]:
        key = (index, int(program.access_number[access]), program.access_path[access])
        if key in known:
            continue
        known.add(key)
        for time in range(repeat.first + index, repeat.last + 1, repeat.size):
            for other in operands.get((time, key[1], key[2]), ()):
                use = uses[other]
                if use < 0:
                    continue
                if value.start is None:
                    mode[use] = value.mode
                    continue
                begin, done = value.start
                effective = begin
                if begin == repeat.size - 1 and done == 0:
                    effective = -repeat.size
                elif begin + 1 >= done:
                    effective -= repeat.size
                preferred_time[use] = ends[use] - index + effective


class _Layer:
    """The second of the repeated layers, with a layer on either side."""

    def __init__(self, program: Program, target: Target, options: Options, problem: Problem, repeat: Repeat) -> None:
        self._program, self._target, self._options, self._problem = program, target, options, problem
        self._size = repeat.size
        self.first = repeat.first + repeat.size
        self._instruction = np.full(self._size, -1, np.int64)
        self._free = np.full(self._size, problem.limit.fast_bytes, np.int64)
        times = program.schedule_index
        for t in np.flatnonzero((times >= self.first) & (times < self.first + self._size)).tolist():
            self._instruction[times[t] - self.first] = t
            self._free[times[t] - self.first] -= program.reserved[t]
        self._fast = np.zeros(program.num_accesses, bool)
        self._values = self._classify()

    def _classify(self) -> list[_LoopValue]:
        """Returns the values of the layer, by worth, the most first (XLA: `SortLoopValues`)."""
        program, size = self._program, self._size
        mine = self._instruction[self._instruction >= 0]
        accesses = np.concatenate([np.arange(program.access_start[t], program.access_start[t + 1]) for t in mine])
        values = []
        for buffer in sorted({int(b) for b in program.access_buffer[accesses]}):
            if self._values_of(buffer) == 0 or not program.fast_allowed[buffer]:
                continue
            value = self._value(buffer, size)
            if value is not None:
                values.append(value)
        return sorted(values, key=lambda value: -value.worth)

    def _values_of(self, buffer: int) -> int:
        """Returns how many values a buffer has."""
        row = self._problem.buffer[buffer]
        return int(row["end_value"] - row["first_value"])

    def _value(self, buffer: int, size: int) -> _LoopValue | None:
        """Returns the value of a buffer, or None for a kind that is not planned."""
        program = self._program
        accesses = np.flatnonzero(program.access_buffer == buffer)
        indices = program.schedule_index[program.access_instruction[accesses]].astype(int) - self.first
        born, earlier, header = [], [], program.definition[buffer] < 0
        uses: list[tuple[int, int]] = []
        later: list[tuple[int, int]] = []
        saved, footer = 0.0, False
        for access, index in zip(accesses.tolist(), indices.tolist(), strict=True):
            moved = float(program.access_bytes[access])
            if program.access_kind[access] == RESULT:
                if 0 <= index < size:
                    born.append(index)
                    saved += moved
                elif -size <= index < 0:
                    earlier.append(index)
                    saved += moved
                elif not born and not earlier:
                    header = True
            elif 0 <= index < size:
                uses.append((index, access))
                saved += moved
            elif size <= index < 2 * size:
                later.append((index - size, access))
                saved += moved
            elif index >= 2 * size and (born or uses):
                footer = True
        footer |= bool(program.is_output[buffer]) and bool(born or uses)
        if earlier or not (born or uses):
            return None
        whole = int(program.size[buffer])
        saved -= whole * bool(header) + whole * (bool(born) and footer)
        kind = None
        if born:
            if (not later and uses) or (later and later[-1][0] < born[0]):
                kind = _TEMPORARY
        elif header and uses:
            if len(uses) == len(later) and uses[0][0] == later[0][0]:
                kind = _PINNED
            elif not later or later[-1][0] < uses[0][0]:
                kind = _PREFETCH
        if kind is None:
            return None
        return _LoopValue(buffer, whole, kind, born[0] if born else None, uses, later, saved / max(whole, 1))

    def plan(self) -> list[_LoopValue]:
        """Decides all values and returns them (XLA: `AllocateLoopValues`)."""
        for value in self._values:
            if value.kind == _TEMPORARY:
                assert value.born is not None
                several = self._values_of(value.buffer) > 1
                last = value.later[-1][0] + self._size if value.later else value.uses[-1][0]
                if not several and self._take(value.born, last, value.size):
                    self._serve(value, M_KEEP)
                    written = self._program.access_start
                    t = int(self._instruction[value.born])
                    for access in range(written[t], written[t + 1]):
                        if self._program.access_buffer[access] == value.buffer:
                            self._fast[access] = True
            elif value.kind == _PINNED and value.worth > 0 and self._take(0, self._size - 1, value.size):
                self._serve(value, M_KEEP)
        self._prefetch_all([value for value in self._values if value.kind == _PREFETCH])
        return self._values

    def _take(self, first: int, last: int, size: int) -> bool:
        """Holds bytes over `first..last`, modulo the layer, if they are free; returns whether they are."""
        indices = np.arange(first, last + 1) % self._size
        held = np.bincount(indices, minlength=self._size) * size
        if (held > self._free).any():
            return False
        self._free -= held
        return True

    def _serve(self, value: _LoopValue, mode: int) -> None:
        """Serves all uses of a value from fast memory."""
        value.mode = mode
        for _, access in value.uses:
            self._fast[access] = True
        for index, access in value.later if value.kind != _PINNED else ():
            self._mark(index, access)

    def _mark(self, index: int, access: int) -> None:
        """Marks the use in this layer that corresponds to one in the next layer as fast."""
        program, t = self._program, int(self._instruction[index])
        for other in range(program.access_start[t], program.access_start[t + 1]):
            if program.access_kind[other] == OPERAND and program.access_number[other] == program.access_number[access]:
                self._fast[other] |= program.access_path[other] == program.access_path[access]

    def _idle(self) -> NDArray[np.float64]:
        """Returns the seconds that each time of the layer leaves HBM idle."""
        program, target = self._program, self._target
        idle = np.zeros(self._size)
        for index, t in enumerate(self._instruction.tolist()):
            if t < 0:
                continue
            rows = slice(program.access_start[t], program.access_start[t + 1])
            fast = min(float(program.access_bytes[rows][self._fast[rows]].sum()), float(program.bytes_total[t]))
            hbm_s = (float(program.bytes_total[t]) - fast) / target.hbm_bandwidth
            idle[index] = max(float(program.compute_s[t]), hbm_s + fast / target.fast_bandwidth) - hbm_s
        return idle

    def _prefetch_all(self, values: list[_LoopValue]) -> None:
        """Plans prefetches, those of the last uses first (XLA: `AllocatePrefetches`)."""
        before = self._fast.copy()
        for value in values:
            for _, access in value.uses:
                self._fast[access] = True
        idle = self._idle()
        self._fast = before
        taken = np.zeros(self._size, np.int64)
        numbers = self._program.access_number
        values = sorted(values, key=lambda value: (-value.uses[0][0], -int(numbers[value.uses[0][1]])))
        done: list[_LoopValue] = []
        for value in values:
            self._prefetch(value, done, idle, taken)
            done.append(value)
        self._free -= taken

    def _prefetch(
        self, value: _LoopValue, done: list[_LoopValue], idle: NDArray[np.float64], taken: NDArray[np.int64]
    ) -> None:
        """Plans one prefetch, as late as idle bandwidth and free memory allow (XLA: `AllocatePrefetch`)."""
        size, whole = self._size, value.size
        first, last = value.uses[0][0], value.uses[-1][0]
        until = last
        if value.later:
            last = value.later[-1][0]
            until = last + size
        if any(taken[i % size] + whole > self._free[i % size] for i in range(first, until + 1)):
            return
        need = whole / (self._options.copy_bandwidth_scale * self._target.hbm_bandwidth)
        moved, start = 0.0, None
        forced: list[_LoopValue] = []
        forced_bytes, at_forced = 0, 0
        for i in range(first - 1, until - size - 1, -1):
            index = (i + size) % size
            if i < 0:  # in the layer before, where copies keep their order
                while at_forced < len(done):
                    other = done[at_forced]
                    if other.start is not None:
                        begin, due = other.start
                        if due <= begin + 1 or (begin == size - 1 and due == 0) or begin != index:
                            break
                        forced.append(other)
                        forced_bytes += other.size
                    at_forced += 1
            double = whole if index == last else 0
            if taken[index] + whole + double + forced_bytes > self._free[index]:
                break
            left = idle[index]
            if left >= need - moved:
                moved, start = need, index
                break
            if start is None and moved + left >= need * self._options.loop_copy_ratio:
                start = index
            elif index == last:  # starts as the layer before frees its own
                start = index
                break
            moved += left
        if start is None:
            return
        for i in range(first, until + 1):
            taken[i % size] += whole
        moved = 0.0
        for i in range(first - 1, until - size - 1, -1):
            index = (i + size) % size
            taken[index] += whole
            if idle[index] < need - moved:
                moved += idle[index]
                idle[index] = 0.0
                if index == start:
                    break
            else:
                idle[index] -= need - moved
                break
        value.start = ((start - 1 + size) % size, first)
        self._serve(value, M_KEEP)
        for other in forced:
            assert other.start is not None
            for index in range(other.start[0], start - 1, -1):
                taken[index] += other.size
            other.start = ((start - 1 + size) % size, other.start[1])
