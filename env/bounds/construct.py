"""From what a relaxation chose to a mapping that verifies: residencies and copies as it has them, then packed.

Shares are rounded, so that whole buffers stay or are copied; copies run in the windows in which the solution has them
run. What then does not fit at some instruction is fetched later or left in HBM, least benefit first; so is what the
packer finds no offset for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..packing.best_fit import best_fit
from ..packing.repack import groups, packing_of, repack
from ..physics.objective import Judge
from ..physics.simulator import simulate
from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from ..program.program import Program
from ..program.target import Target
from .history import Touch, touches
from .linear import Expression
from .placement import Placement, Stretch
from .solve import Stop

# From which share on something counts as chosen; in a fractional solution each gives another mapping. And whether
# buffers that were left out are placed too: under `cycles` that may cost more than it saves.
_ROUNDINGS = ((0.5, True), (0.5, False), (0.9, True), (0.2, True))
_ROOM = (1.0, 0.97, 0.93, 0.87, 0.8)  # of fast memory, tried in turn until the packer finds offsets
_GROWTH = 1e-3  # less is rounding
_PACKER_SECONDS = 2.0
_LONG = 3600.0
_SHEDDINGS = 40
_HURRIED = 60  # prefetches, at most, that are tried sooner


@dataclass
class _Life:
    """The plan of one buffer.

    Attributes:
      fast: instructions of the touches served from fast memory.
      stays: `[first instruction, last]` in fast memory.
      copies: `[direction, start, end, limit]`: the latest end of a write-back, the earliest start of a prefetch.
    """

    fast: set[int]
    stays: list[list[int]] = field(default_factory=list)
    copies: list[list[int]] = field(default_factory=list)


def constructed(
    judge: Judge,
    placement: Placement,
    values: NDArray[np.float64],
    stop: Stop | None = None,
    packer_nodes: int | None = None,
) -> Iterator[Mapping]:
    """Yields mappings that verify, for one rounding of the solution after the other.

    Args:
      judge: what they are judged by.
      placement: what the columns mean.
      values: `[columns]` of the solution.
      stop: ends it early.
      packer_nodes: limit of the exact packer, which a slow machine does not change; None for one of time.
    """
    program, target = judge.program, judge.target
    packer_seconds = _PACKER_SECONDS if packer_nodes is None else _LONG
    going = stop or (lambda: False)
    seen: set[tuple[bool, tuple[tuple[int, int], ...]]] = set()
    for share, minor in _ROUNDINGS:
        wanted = tuple(sorted(touch for touch, column in placement.fast.items() if values[column] >= share))
        if (minor, wanted) not in seen:
            seen.add((minor, wanted))
            builder = _Builder(program, target, placement, values, share, minor)
            for room in _ROOM:
                builder.fit(room)
                builder.hurry(judge, room, going)
                if going():
                    return
                packed = repack(program, builder.mapping(), target, packer_seconds, packer_nodes).mapping
                if packed is not None:
                    yield packed
                    break
            if room < _ROOM[0] or packed is None:
                builder = _Builder(program, target, placement, values, share, minor)
                builder.fit(_ROOM[0])
                packed = builder.shed()
                if packed is not None:
                    yield packed


class _Builder:
    def __init__(
        self,
        program: Program,
        target: Target,
        placement: Placement,
        values: NDArray[np.float64],
        share: float,
        minor: bool,
    ) -> None:
        self._program, self._target, self._values, self._share = program, target, values, share
        self._histories = touches(program)
        self._stretches = placement.stretches
        self._late: dict[tuple[int, int], int] = {}  # (buffer, touch) -> earliest issue of its prefetch
        self._fast: dict[int, set[int]] = {}
        for (t, buffer), column in placement.fast.items():
            if values[column] >= share:
                self._fast.setdefault(buffer, set()).add(t)
        # What is left out counts as fast for nothing: so it is, as far as it comes and goes without copies.
        for buffer in placement.left_out if minor else ():
            if program.definition[buffer] >= 0 and not program.is_output[buffer]:
                self._fast[buffer] = {touch.instruction for touch in self._histories[buffer]}
        self._ahead = {b for b, column in placement.ahead.items() if values[column] >= max(share, 0.5)}
        self._lives: dict[int, _Life] = {}
        self._hurried: set[tuple[int, int]] = set()  # buffer and touch of prefetches that were tried sooner
        self._used = np.zeros(program.num_instructions, np.int64)
        for buffer in sorted(self._fast):
            self._plan(buffer)

    # ---- one buffer -------------------------------------------------------------------------------------------------

    def _plan(self, buffer: int) -> None:
        """Makes or remakes the plan of a buffer from the touches that are to be fast."""
        self._charge(buffer, -1)
        history, fast, steps = self._histories[buffer], self._fast[buffer], self._program.num_instructions
        life = _Life(set())
        if fast and buffer in self._ahead:
            life.fast = {touch.instruction for touch in history}
            life.stays, life.copies = [[0, steps - 1]], [[CROSS_PROGRAM, -1, 0, 0]]
        elif fast:
            self._walk(buffer, history, fast, life)
        self._lives[buffer] = life
        self._charge(buffer, 1)

    def _walk(self, buffer: int, history: list[Touch], fast: set[int], life: _Life) -> None:
        steps = self._program.num_instructions
        stay: list[int] | None = None  # the residency that holds the value
        in_hbm: int | None = -1 if self._program.definition[buffer] < 0 else None  # earliest issue of a prefetch
        written = -1
        for touch in history:
            t, wanted = touch.instruction, touch.instruction in fast
            if touch.reads:
                stretch = self._stretches.get((buffer, t))
                keep = stay is not None and (in_hbm is None or stretch is None or self._at(stretch.kept) >= 0.5)
                if wanted and not (keep and stay is not None):
                    earliest = max(-1 if in_hbm is None else in_hbm, stay[1] if stay is not None else -1)
                    start = max(earliest, self._issue(buffer, t, stretch))
                    if in_hbm is None or start >= t:
                        wanted = keep = stay is not None
                    else:
                        stay = [start + 1, t]
                        life.stays.append(stay)
                        life.copies.append([PREFETCH, start, t, earliest])
                if not wanted and in_hbm is None:  # it must have got out before
                    assert stay is not None
                    if touch.writes:
                        wanted = True  # in place, and nothing else has it
                    else:
                        in_hbm = self._write_back(buffer, life, stay, written, t, self._stretches.get((buffer, t)))
                if wanted and stay is not None:
                    stay[1] = max(stay[1], t)
            if touch.writes:
                if wanted:
                    if not touch.reads or stay is None:
                        stay = [t, t]
                        life.stays.append(stay)
                    in_hbm, written = None, t
                    again = self._next_need(buffer, history, t, fast)
                    if again is not None:
                        in_hbm = self._write_back(buffer, life, stay, t, again, self._later(buffer, history, t))
                else:
                    stay, in_hbm = None, t
            if wanted:
                life.fast.add(t)
        if self._program.is_output[buffer] and in_hbm is None and stay is not None:
            self._write_back(buffer, life, stay, written, steps, self._stretches.get((buffer, steps)))

    def _next_need(self, buffer: int, history: list[Touch], t: int, fast: set[int]) -> int | None:
        """Returns before which instruction the value written at `t` must be in HBM, as the solution has it."""
        for touch in history:
            if touch.instruction > t:
                if not touch.reads:
                    return None
                stretch = self._stretches.get((buffer, touch.instruction))
                if touch.instruction not in fast:
                    return None if touch.writes else touch.instruction
                if stretch is not None and self._at(stretch.kept) < 0.5:
                    start = self._issue(buffer, touch.instruction, stretch)
                    return start if start > t else None
                if touch.writes:
                    return None
        return None

    def _later(self, buffer: int, history: list[Touch], t: int) -> Stretch | None:
        following = next((touch.instruction for touch in history if touch.instruction > t), None)
        return None if following is None else self._stretches.get((buffer, following))

    def _write_back(
        self, buffer: int, life: _Life, stay: list[int], start: int, need: int, stretch: Stretch | None
    ) -> int:
        """Adds a write-back issued after `start`, due before `need`, sooner if the solution has it sooner."""
        end = need
        if stretch is not None:
            grown = [
                last
                for (_, _, before), (_, last, after) in zip(stretch.in_hbm[:-1], stretch.in_hbm[1:], strict=True)
                if self._at(after) - self._at(before) > _GROWTH
            ]
            if grown:
                end = min(end, (grown[-1] + 1) // 2)
        end = max(end, start + 1)
        life.copies.append([WRITE_BACK, start, end, max(need, end)])
        stay[1] = max(stay[1], end - 1)
        return end

    def _issue(self, buffer: int, t: int, stretch: Stretch | None) -> int:
        """Returns after which instruction the solution begins to fetch for touch `t`."""
        start = t - 1
        if stretch is not None:
            for (_, _, before), (first, _, after) in zip(stretch.fetched[:-1], stretch.fetched[1:], strict=True):
                if self._at(after) - self._at(before) > _GROWTH:
                    start = min(start, first // 2 - 1)
                    break
        return max(start, self._late.get((buffer, t), -1))

    def _at(self, share: Expression) -> float:
        return share.at(self._values)

    # ---- room -------------------------------------------------------------------------------------------------------

    def _charge(self, buffer: int, sign: int) -> None:
        size = self._target.align(int(self._program.size[buffer]))
        for first, last in self._lives.get(buffer, _Life(set())).stays:
            self._used[first : last + 1] += sign * size

    def fit(self, room: float) -> None:
        """Fetches later, or not at all, until at every instruction no more than a share of the room is in use."""
        most = self._most(room)
        while True:
            over = self._used - most
            t = int(np.argmax(over)) if len(over) else 0
            if not len(over) or over[t] <= 0:
                return
            here = [
                (buffer, stay) for buffer, life in self._lives.items() for stay in life.stays if stay[0] <= t <= stay[1]
            ]
            fetched = [(b, s) for b, s in here if self._first_use(b, s) > t and self._is_fetched(b, s)]
            if fetched:
                buffer, stay = max(fetched, key=lambda pair: int(self._program.size[pair[0]]))
                self._late[buffer, self._first_use(buffer, stay)] = t
            else:
                buffer, stay = min(here, key=lambda pair: (self._worth(*pair), pair[0]))
                self._fast[buffer] -= {u for u in self._fast[buffer] if stay[0] <= u <= stay[1]}
                self._ahead.discard(buffer)
            self._plan(buffer)

    def _most(self, room: float) -> NDArray[np.int64]:
        return np.floor((self._target.fast_bytes - self._program.reserved) * room).astype(np.int64)

    def hurry(self, judge: Judge, room: float, stop: Stop) -> None:
        """Issues prefetches that instructions wait for sooner, where there is room and it helps."""
        most, best = self._most(room), judge.judge(self.mapping())
        for _ in range(_HURRIED):
            if stop():
                return
            wait_s = simulate(self._program, self._target, self.mapping(), judge.models[0]).wait_s
            late = [
                (buffer, copy)
                for buffer, life in self._lives.items()
                for copy in life.copies
                if copy[0] == PREFETCH and wait_s[copy[2]] > 0 and (buffer, copy[2]) not in self._hurried
            ]
            if not late:
                return
            buffer, copy = max(late, key=lambda pair: (wait_s[pair[1][2]], -pair[0]))
            self._hurried.add((buffer, copy[2]))
            stay = next(s for s in self._lives[buffer].stays if s[0] == copy[1] + 1)
            size, kept = self._target.align(int(self._program.size[buffer])), copy[1]
            for earlier in (1, 2, 4, 8, 16, 32, 64):
                start = copy[1] = max(copy[3], kept - earlier)
                stay[0] = start + 1
                if np.any(self._used[start + 1 : kept + 1] + size > most[start + 1 : kept + 1]):
                    break
                found = judge.judge(self.mapping())
                if found < best:
                    best = found
                    self._used[start + 1 : kept + 1] += size
                    kept = start
                if start == copy[3]:
                    break
            copy[1], stay[0] = kept, kept + 1

    def shed(self) -> Mapping | None:
        """Gives up the least valuable residencies among those that best fit does not place, until it places all."""
        for _ in range(_SHEDDINGS):
            mapping = self.mapping()
            group = groups(mapping)
            packing, _ = packing_of(self._program, mapping, self._target, group)
            placed = best_fit(packing)
            out = np.flatnonzero(placed.offsets + packing.size > packing.capacity)
            if not len(out):
                return repack(self._program, mapping, self._target, seconds=0.0).mapping
            rows = mapping.residencies[np.isin(group, out), :3].tolist()
            buffer, first, last = min(rows, key=lambda row: (self._worth(row[0], row[1:3]), row))
            self._fast[buffer] -= {u for u in self._fast[buffer] if first <= u <= last}
            self._ahead.discard(buffer)
            self._plan(buffer)
        return None

    def _first_use(self, buffer: int, stay: list[int]) -> int:
        return min((t for t in self._lives[buffer].fast if stay[0] <= t <= stay[1]), default=-1)

    def _is_fetched(self, buffer: int, stay: list[int]) -> bool:
        return any(c[0] == PREFETCH and c[1] + 1 == stay[0] for c in self._lives[buffer].copies)

    def _worth(self, buffer: int, stay: list[int]) -> float:
        """Bytes served from it, loop trips counted, per byte and instruction that it takes."""
        served = sum(
            float(self._program.access_bytes[a] * self._program.weight[touch.instruction])
            for touch in self._histories[buffer]
            if stay[0] <= touch.instruction <= stay[1]
            for a in touch.accesses
        )
        return served / (float(self._program.size[buffer]) * (stay[1] - stay[0] + 1.0) ** 0.5)

    # ---- all --------------------------------------------------------------------------------------------------------

    def mapping(self) -> Mapping:
        """Returns the mapping, at offsets that mean nothing yet."""
        program = self._program
        fast = np.zeros(program.num_accesses, bool)
        residencies: list[list[int]] = []
        copies: list[list[int]] = []
        for buffer, life in sorted(self._lives.items()):
            size = int(program.size[buffer])
            for touch in self._histories[buffer]:
                fast[list(touch.accesses)] = touch.instruction in life.fast
            for first, last in life.stays:
                # Each residency may get an offset of its own: at equal ones they would be kept together.
                residencies.append([buffer, first, last, len(residencies) * self._target.alignment, 0, size])
            for direction, start, end, limit in life.copies:
                if direction == WRITE_BACK:  # as late as the value is there anyway: nothing waits for it sooner
                    end = max(end, min(limit, 1 + max(b for a, b in life.stays if a <= start <= b)))
                copies.append([buffer, direction, start, end, 0, size, buffer, -1])
        copies.sort(key=lambda copy: (copy[2], copy[3]))
        return Mapping(
            program.sha256,
            fast,
            np.array(residencies, np.int64).reshape(-1, 6),
            np.array(copies, np.int64).reshape(-1, 8),
            {"solver": "bound"},
        )
