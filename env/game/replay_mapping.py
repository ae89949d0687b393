"""A mapping replayed as a line of play: each move is the nearest to it, and departures are counted by reason."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..physics.cost import available_models
from ..physics.simulator import simulate
from ..program.extents import extents
from ..program.mapping import CROSS_PROGRAM, WRITE_BACK, Mapping
from ..program.program import OPERAND, RESULT
from . import kernels
from .game import MallocGame
from .moves import COPY, DROP, NO_COPY
from .options import ANY_OFFSET, new_options
from .records import READ_LATER

# Reasons for serving an access from HBM that the mapping serves from fast memory.
NEVER = "never"  # the game never places the buffer: it is forbidden, empty or too large
TRIVIAL = "trivial"  # the game plays the buffer itself
NO_OFFSET = "no offset"  # no offset is free for it
WAIT = "wait"  # its prefetch would wait longer than it gains, or no window is open
EARLIER = "earlier"  # an earlier access of its buffer departed from the mapping
TIED = "tied"  # another access decides it: of the same instruction, or the first in a loop
# Reasons for serving an access from fast memory that the mapping serves from HBM.
HELD = "held"  # fast memory holds the only copy of the value
LOST = (NEVER, TRIVIAL, NO_OFFSET, WAIT, EARLIER, TIED)
# Gaps tried for a buffer whose offset in the mapping is taken.
_TRIED_GAPS = 8


@dataclass(frozen=True, eq=False)
class ReplayedMapping:
    """A game played to follow a mapping. Shapes: `K` decisions, `A` accesses of the program.

    Attributes:
      moves: `[K]` the moves made: played again, with their offsets, they give the same game.
      offsets: `[K]` the offset that each names; None for the game's own choice.
      mapping: the mapping that the line ends in.
      wanted: `[A]` the accesses that the followed mapping serves from fast memory.
      lost, gained: access numbers by reason: served from HBM though wanted, from fast memory though not.
      elsewhere: decisions that place a buffer at another offset than the followed mapping.
      latency_s: of the followed mapping and of the line's, steady seconds by cost model.
      features: how often the followed mapping has what a line expresses otherwise or not at all.
    """

    moves: list[int]
    offsets: list[int | None]
    mapping: Mapping
    wanted: NDArray[np.bool_]
    lost: dict[str, list[int]]
    gained: dict[str, list[int]]
    elsewhere: int
    latency_s: dict[str, tuple[float, float]]
    features: dict[str, int] = field(default_factory=dict)

    def replay(self, game: MallocGame) -> None:
        """Plays the line on a game of the same program and settings.

        Raises:
          ValueError: a move is not legal there.
        """
        game.reset()
        for move, offset in zip(self.moves, self.offsets, strict=True):
            game.step(move, offset)


def follow(game: MallocGame, mapping: Mapping, name_offsets: bool = True) -> ReplayedMapping:
    """Plays `game` to its end, each move the nearest to what a mapping does.

    An access comes out as the mapping has it, fast or not, if any legal move does that; a result that the mapping
    writes back is copied. Windows and waits are the game's.

    Args:
      game: the game; it is over afterwards.
      mapping: a legal mapping of its program.
      name_offsets: name the mapping's own offsets where they are legal; else the game picks all.
    """
    return _Follower(game, mapping, name_offsets).run()


def report(line: ReplayedMapping, game: MallocGame) -> dict[str, Any]:
    """Returns what a line could follow and what not, as plain JSON values; the line has ended `game`.

    Times are seconds, sizes bytes; `benefit_s` adds up what each access saves alone by the game's clock.
    """
    program, tables = game.program, game.tables
    alike = line.wanted == line.mapping.access_fast

    def count(by_reason: dict[str, list[int]]) -> dict[str, Any]:
        return {
            reason: {
                "accesses": len(rows),
                "bytes": int(program.access_bytes[rows].sum()),
                "benefit_s": float(tables.access["benefit"][rows].sum()),
            }
            for reason, rows in by_reason.items()
        }

    return {
        "decisions": len(line.moves),
        "offsets_named": sum(offset is not None for offset in line.offsets),
        "offsets_elsewhere": line.elsewhere,
        "accesses": program.num_accesses,
        "accesses_alike": int(alike.sum()),
        "bytes_alike": float(program.access_bytes[alike].sum() / max(program.access_bytes.sum(), 1.0)),
        "lost": count(line.lost),
        "gained": count(line.gained),
        "features": line.features,
        "latency_s": {model: {"mapping": was, "line": now} for model, (was, now) in line.latency_s.items()},
    }


class _Follower:
    """Plays one game."""

    def __init__(self, game: MallocGame, mapping: Mapping, name_offsets: bool) -> None:
        self.game, self.mapping, self.name_offsets = game, mapping, name_offsets
        self.tables, self.state, self.options = game.tables, game.state, new_options()
        self.program = game.program
        self.moves: list[int] = []
        self.offsets: list[int | None] = []
        self.lost: dict[str, list[int]] = defaultdict(list)
        self.gained: dict[str, list[int]] = defaultdict(list)
        self.elsewhere = 0
        self.touched = np.full(self.program.num_buffers, -1)  # instruction of the last access
        self.places: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for buffer, start, end, offset, *_ in mapping.residencies.tolist():
            self.places[buffer].append((start, end, offset))
        self.fetches: dict[int, list[int]] = defaultdict(list)
        self.write_backs: dict[int, list[int]] = defaultdict(list)
        for buffer, direction, start, end, *_ in mapping.copies.tolist():
            if direction == WRITE_BACK:
                self.write_backs[buffer].append(start)
            else:
                self.fetches[buffer].append(end)
        self.crosses = set(mapping.copies[mapping.copies[:, 1] == CROSS_PROGRAM, 0].tolist())
        self.next_write = _next_writes(game)
        self.top = game.target.fast_bytes

    def run(self) -> ReplayedMapping:
        """Walks the accesses as `rules.advance` does, and chooses a move where it would stop."""
        game, tables, state = self.game, self.tables, self.state
        game.reset()
        kernels.reset(tables, state)
        options = self.options
        while choices := kernels.look(tables, state, options, ANY_OFFSET, False):
            access = int(state.now.access)
            buffer = int(self.program.access_buffer[access])
            if choices > 1 and not tables.buffer["trivial"][buffer]:
                move, offset = self._choose(access, buffer, options["legal"])
                self.moves.append(move)
                self.offsets.append(offset)
                kernels.look(tables, state, options, ANY_OFFSET if offset is None else offset, False)
                self._note(access, buffer, move)
                state.now.decisions += 1
                kernels.make(tables, state, options, move)
            else:
                move = kernels.own_move(tables, state, options)
                self._note(access, buffer, move)
                kernels.make(tables, state, options, move)
            self.touched[buffer] = self.program.access_instruction[access]
        game.take_over(self.moves)
        return self._line()

    def _line(self) -> ReplayedMapping:
        program, mapping, game = self.program, self.mapping, self.game
        copies = mapping.copies
        features = Counter(
            {
                "slices": int(np.sum((copies[:, 4] > 0) | (copies[:, 5] < program.size[copies[:, 0]]))),
                "replaced_copies": int(np.sum(copies[:, 7] >= 0)),
                "cross_program_prefetches": len(self.crosses),
                "cross_program_prefetches_followed": int(int(self.state.now.cross) in self.crosses),
            }
        )
        made = game.mapping()
        latency_s = {
            model: tuple(simulate(program, game.target, m, model).latency_s for m in (mapping, made))
            for model in available_models(program)
        }
        return ReplayedMapping(
            self.moves,
            self.offsets,
            made,
            mapping.access_fast,
            dict(self.lost),
            dict(self.gained),
            self.elsewhere,
            latency_s,  # type: ignore[arg-type]
            dict(features),
        )

    def _choose(self, access: int, buffer: int, legal: NDArray[np.int8]) -> tuple[int, int | None]:
        """Returns the nearest move to what the mapping does at this decision, and the offset it names."""
        t = int(self.program.access_instruction[access])
        for move in self._preferences(access, buffer, t):
            if self.name_offsets and move != DROP:
                at = next((o for first, last, o in self.places[buffer] if first <= t <= last), None)
                if at is not None and self.game.allows(move, at):
                    return move, at
            if legal[move]:
                if move == DROP or not self.name_offsets or self.state.buffer["resident"][buffer]:
                    return move, None
                self.elsewhere += 1
                return move, self._out_of_the_way(buffer, t, move)
        raise AssertionError("a decision has a legal move")

    def _out_of_the_way(self, buffer: int, t: int, move: int) -> int | None:
        """Returns a legal offset that the mapping leaves free for as long as it keeps the buffer; None for none.

        A buffer at the offset of another one would displace that one in turn.
        """
        rows = extents(self.program, self.mapping.residencies)
        until = max((last for first, last, _ in self.places[buffer] if first <= t <= last), default=t)
        there = rows[(rows[:, 1] <= until) & (rows[:, 2] >= t) & (rows[:, 0] != buffer)]
        there = there[np.argsort(there[:, 3] + there[:, 4])]
        align = self.game.target.align
        size, edge = align(int(self.program.fast_size[buffer])), int(self.tables.limits.reserved)
        gaps: list[tuple[int, int]] = []
        for low, high in [
            *zip(there[:, 3] + there[:, 4], there[:, 3] + there[:, 5], strict=True),
            (self.top, self.top),
        ]:
            if low - edge >= size:
                gaps.append((int(low) - edge, edge))
            edge = max(edge, align(int(high)))
        for width, low in sorted(gaps)[:_TRIED_GAPS]:
            for offset in (low, (low + width - size) // self.game.target.alignment * self.game.target.alignment):
                if self.game.allows(move, offset):
                    return offset
        return None

    def _preferences(self, access: int, buffer: int, t: int) -> tuple[int, ...]:
        if self.program.access_kind[access] == RESULT:
            if not self.mapping.access_fast[access]:
                return (DROP, COPY, NO_COPY)
            return (COPY, NO_COPY, DROP) if self._goes_out(access, buffer) else (NO_COPY, COPY, DROP)
        if not self.mapping.access_fast[access]:
            return (DROP, NO_COPY, COPY)
        if self.state.buffer["resident"][buffer] or buffer in self.crosses:
            carried = self.tables.access["carried"][access] == READ_LATER
            return (COPY, NO_COPY, DROP) if carried and self._goes_out(access, buffer) else (NO_COPY, COPY, DROP)
        return (COPY, DROP, NO_COPY)

    def _goes_out(self, access: int, buffer: int) -> bool:
        """Returns whether the mapping writes the buffer back after this access, or after the loop that carries it."""
        first, last = int(self.program.access_instruction[access]), access
        if self.tables.access["carried"][access]:
            first = int(self.tables.access["until"][access])
            while (following := self.tables.access["next"][last]) >= 0 and self.tables.access["due"][
                following
            ] <= first:
                last = int(following)
        return any(first <= start < self.next_write[last] for start in self.write_backs[buffer])

    def _note(self, access: int, buffer: int, move: int) -> None:
        """Counts an access that departs from the mapping, with the reason."""
        wanted = bool(self.mapping.access_fast[access])
        if wanted == (move != DROP):
            return
        reasons = self.lost if wanted else self.gained
        reasons[self._why_lost(access, buffer) if wanted else self._why_gained(access, buffer)].append(access)

    def _why_gained(self, access: int, buffer: int) -> str:
        if self.tables.buffer["trivial"][buffer]:
            return TRIVIAL
        return TIED if self.tables.access["tied_to"][access] >= 0 else HELD

    def _why_lost(self, access: int, buffer: int) -> str:
        tables, state = self.tables, self.state
        t = int(self.program.access_instruction[access])
        if not tables.buffer["played"][buffer]:
            return NEVER
        if tables.buffer["trivial"][buffer]:
            return TRIVIAL
        if tables.access["tied_to"][access] >= 0:
            return TIED
        if self.program.access_kind[access] == OPERAND:
            if not any(self.touched[buffer] < end <= t for end in self.fetches[buffer]):
                return EARLIER
            return WAIT if kernels.offset_now(tables, state, access) >= 0 else NO_OFFSET
        wait, gain = self.options["stall_s"], tables.access["ahead"][access]
        return WAIT if wait * tables.instruction["weight"][t] >= gain > 0.0 else NO_OFFSET


def _next_writes(game: MallocGame) -> NDArray[np.int64]:
    """Returns `[A]` the instruction of the buffer's next result after each access, or `T`."""
    program = game.program
    following = np.full(program.num_accesses, program.num_instructions, np.int64)
    ahead = np.full(program.num_buffers, program.num_instructions, np.int64)
    for access in range(program.num_accesses - 1, -1, -1):
        buffer = program.access_buffer[access]
        following[access] = ahead[buffer]
        if program.access_kind[access] == RESULT:
            ahead[buffer] = program.access_instruction[access]
    return following
