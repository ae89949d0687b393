"""Where buffers may be, as a relaxation: the columns and rows that do not depend on the cost model.

Columns count shares of a buffer. A legal mapping gives each column a value such that every row holds, so the least cost
over all values is no more than the mapping's. docs/bounds.md says which rule of the physics each row is, and which
rules have no row.
"""

from dataclasses import dataclass

import numpy as np

from ..program.program import Program
from ..program.target import Target
from .history import Touch, may_be_fast, replaceable, touches
from .linear import Expression, LinearProgram
from .slots import SlotTree


@dataclass(frozen=True)
class Rules:
    """Which freedoms of the physics a relaxation grants; all of them for a bound on every legal mapping.

    Attributes:
      whole: between two touches all of a buffer is kept or copied, or nothing. To look for mappings: no bound follows,
        since a copy that runs on beside a read in HBM is partly done at that touch.
      replacements: an asynchronous copy may replace a `copy` or `slice` instruction.
      most_ahead: of how many buffers, at most, the previous execution may issue prefetches; None for any number.
      most_room_rows: at how many instructions, at most, the buffers are made to fit; fewer make a weaker bound, sooner.
      in_flight: bytes on their way take room too. To look for mappings: what a copy moves late takes room early, but
        parts of a buffer need not.
      room, copy_rate: shares of fast memory and of the copies' bandwidth to count on. Below 1 to look for mappings that
        leave some for what the model does not see, offsets and the order of copies.
      thrift: what a copy costs, as a share of its time, even where it is hidden; under `robust` also what the better of
        the two ratios costs. Above 0 to look for mappings: of many optima, one that needs little.
    """

    whole: bool = False
    replacements: bool = True
    most_ahead: int | None = None
    most_room_rows: int = 400
    in_flight: bool = False
    room: float = 1.0
    copy_rate: float = 1.0
    thrift: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """A buffer between two touches.

    Attributes:
      kept: share that stays in fast memory throughout.
      fetched, in_hbm: `(first slot, last slot, share)`: what is in fast memory, or in HBM, after those slots; each
        begins with what is there before, at slot -1.
    """

    kept: Expression
    fetched: list[tuple[int, int, Expression]]
    in_hbm: list[tuple[int, int, Expression]]


@dataclass
class Placement:
    """The columns that say where buffers are.

    Attributes:
      fast: `(instruction, buffer)` -> column: 1 if the touch is served from fast memory. Buffers that cannot be fast,
        and those left out, have none.
      replaced: instruction -> column: 1 if a copy replaces it.
      in_hbm: `(instruction of the write, buffer)` -> the share of that value that ends up in HBM.
      stretches: `(buffer, instruction of the touch that ends it)` -> what happens before that touch.
      left_out: buffers that count as fast everywhere and take no room and no copies.
      ahead: buffer -> column: the share that the previous execution prefetches.
      trees: what copies ask of the time, once per clock: a mapping fixes what is copied between two touches, but when
        within them depends on how long instructions take.
    """

    fast: dict[tuple[int, int], int]
    replaced: dict[int, int]
    in_hbm: dict[tuple[int, int], Expression]
    ahead: dict[int, int]
    stretches: dict[tuple[int, int], Stretch]
    left_out: frozenset[int]
    trees: list[SlotTree]


@dataclass(frozen=True)
class _Value:
    """The value of a buffer after a touch: shares in fast memory and in HBM.

    Attributes:
      writer: instruction that wrote it, -1 for what the program starts with.
      held: share that lies in fast memory right after the touch.
      in_hbm: share in HBM.
      fixed: all of it is in HBM, whatever the mapping.
      filling: share that a copy which replaces the writer may still fill in before the next touch.
    """

    writer: int
    held: Expression
    in_hbm: Expression
    fixed: bool
    filling: Expression


@dataclass(frozen=True)
class _Before:
    """The touch before: its instruction, whether copies of the value may run beside it, its column."""

    instruction: int
    spanned: bool
    here: Expression


def place(
    program: Program,
    target: Target,
    linear: LinearProgram,
    rules: Rules,
    left_out: frozenset[int],
    unit_s: float,
    clocks: int = 1,
) -> Placement:
    """Adds the columns and rows of a program to a linear program.

    Args:
      program: the program.
      target: the hardware.
      linear: takes the columns and rows.
      rules: what mappings may do.
      left_out: buffers that count as fast everywhere at no cost, which keeps a bound a bound.
      unit_s: the unit of time in seconds.
      clocks: how many cost models the copies are to fit under.
    """
    return _Builder(program, target, linear, rules, left_out, unit_s, clocks).build()


class _Builder:
    def __init__(
        self,
        program: Program,
        target: Target,
        linear: LinearProgram,
        rules: Rules,
        left_out: frozenset[int],
        unit_s: float,
        clocks: int,
    ) -> None:
        self._program, self._linear, self._rules = program, linear, rules
        self._unit_bytes = float(target.fast_bytes)
        self._copy_rate = target.hbm_bandwidth * unit_s * rules.copy_rate  # bytes per unit of time
        trees = [SlotTree(2 * program.num_instructions + 1) for _ in range(clocks)]
        self._placement = Placement({}, {}, {}, {}, {}, left_out, trees)
        possible = may_be_fast(program, target)
        self._played = possible.copy()
        self._played[list(left_out)] = False
        self._room = rules.room * (target.fast_bytes - program.reserved)
        self._histories = touches(program)
        # Per instruction where room can be short: shares of fast memory that are in use while it runs.
        self._used: dict[int, Expression] = {t: Expression() for t in self._short_instructions(rules.most_room_rows)}
        short = np.zeros(program.num_instructions + 1, np.int64)
        short[[t + 1 for t in self._used]] = 1
        self._short_before = np.cumsum(short)
        pairs = replaceable(program) if rules.replacements else {}
        self._pairs = {t: pair for t, pair in pairs.items() if possible[pair[1]]}

    def build(self) -> Placement:
        for t in self._pairs:
            self._placement.replaced[t] = self._linear.column(0, 1, integer=True)
        for buffer in np.flatnonzero(self._played).tolist():
            if self._histories[buffer]:
                self._buffer(buffer, self._histories[buffer])
        if self._rules.most_ahead is not None:
            ahead = Expression(0.0, dict.fromkeys(self._placement.ahead.values(), -1.0))
            self._linear.at_least(ahead, -float(self._rules.most_ahead))
        for t, used in self._used.items():
            self._linear.at_least(used.scaled(-1.0), -self._room[t] / self._unit_bytes)
        return self._placement

    def _short_instructions(self, most: int) -> list[int]:
        """Returns instructions at which the buffers that may be resident do not all fit: of equally many in a row, the
        one at which there are most bytes."""
        steps = self._program.num_instructions
        change = np.zeros(steps + 1)
        for buffer in np.flatnonzero(self._played).tolist():
            history = self._histories[buffer]
            if history:
                size, is_input = float(self._program.size[buffer]), self._program.definition[buffer] < 0
                change[0 if is_input else history[0].instruction] += size
                change[steps if is_input or self._program.is_output[buffer] else history[-1].instruction + 1] -= size
        excess = np.cumsum(change)[:steps] - self._room
        short = np.flatnonzero(excess > 0)
        return [
            int(group[np.argmax(excess[group])])
            for group in np.array_split(short, min(most, len(short)) or 1)
            if len(group)
        ]

    # ---- one buffer -------------------------------------------------------------------------------------------------

    def _buffer(self, buffer: int, history: list[Touch]) -> None:
        """Walks the touches of a buffer. Between two of them lies a stretch, in which copies run."""
        program, linear, steps = self._program, self._linear, self._program.num_instructions
        is_input, is_output = bool(program.definition[buffer] < 0), bool(program.is_output[buffer])
        cross: Expression | None = None
        if is_input and self._rules.most_ahead != 0 and not any(touch.writes for touch in history):
            ahead = self._placement.ahead[buffer] = linear.column(0, 1, integer=self._rules.whole)
            cross = Expression.of(ahead)
        nothing = Expression()
        value = _Value(-1, cross or nothing, Expression(1.0 if is_input else 0.0), is_input, nothing)
        before = _Before(-1, False, nothing)
        read_by: list[int] = []  # replaceable instructions that read the value
        for touch in history:
            t = touch.instruction
            column = linear.column(0, 1, integer=True)
            self._placement.fast[t, buffer] = column
            here = Expression.of(column)
            instead = Expression.of(self._placement.replaced[t]) if t in self._pairs else nothing
            if instead.terms:  # the accesses of a replaced instruction do not count
                linear.at_least(here.add(instead).scaled(-1.0), -1.0)
            value = self._stretch(buffer, value, before, t, touch.reads, touch.reads, bool(read_by))
            if touch.reads:
                linear.at_least(value.held.add(here, -1.0))  # fast reads find all of the value there
                linear.at_least(here.add(value.in_hbm).add(instead), 1.0)  # and others find it in HBM
                if instead.terms:
                    read_by.append(t)
            if touch.writes:
                self._close(buffer, value, read_by)
                read_by = []
                held = here
                if instead.terms:
                    held = held.add(self._filled_early(buffer, before, t, instead))
                in_hbm = Expression(1.0).add(here, -1.0).add(instead, -1.0)
                value = _Value(t, held, in_hbm, False, instead)
            before = _Before(t, not touch.writes, here)
        value = self._stretch(buffer, value, before, steps, cross is not None, is_output, bool(read_by))
        if cross is not None:
            linear.at_least(value.held.add(cross, -1.0))  # fetched ahead of the next execution as of this one
        if is_output:
            linear.at_least(value.in_hbm, 1.0)
        self._close(buffer, value, read_by)

    def _close(self, buffer: int, value: _Value, read_by: list[int]) -> None:
        """The value is history. A copy that replaced a reader of it has found it in HBM."""
        self._placement.in_hbm[value.writer, buffer] = value.in_hbm
        for t in read_by:
            self._linear.at_least(value.in_hbm.add(Expression.of(self._placement.replaced[t]), -1.0))

    def _filled_early(self, buffer: int, before: _Before, t: int, instead: Expression) -> Expression:
        """Returns the share that a copy which replaces `t` fills in before the place of `t` in the program."""
        share = Expression.of(self._linear.column())
        for tree in self._placement.trees:
            nodes = [node for node, _, _ in tree.cover(_first_slot(before), 2 * t)]
            self._spread(tree, nodes, Expression(), share, self._program.size[buffer] / self._copy_rate)
        self._linear.at_least(instead.add(share, -1.0))
        return share

    def _stretch(
        self, buffer: int, value: _Value, before: _Before, end: int, fetches: bool, lives: bool, leaves: bool
    ) -> _Value:
        """Adds what may happen to a value between two touches; returns it as it is right before the second.

        Args:
          buffer: whose value.
          value: as it is after the first touch.
          before: the first touch.
          end: instruction of the second; `T` for the program's end.
          fetches: something reads it in fast memory at the end of the stretch: it may be kept and prefetched.
          lives: something needs it at the end of the stretch: what is not in HBM must stay in fast memory.
          leaves: a copy may read it in HBM: it may be written back even if nothing else needs it.
        """
        linear = self._linear
        seconds = float(self._program.size[buffer]) / self._copy_rate
        writes_back = not value.fixed and (lives or leaves)
        fetches |= bool(value.filling.terms)
        if not fetches and not writes_back:
            self._use(before.instruction, buffer, before.here)
            return value
        whole = self._rules.whole
        tree, *others = self._placement.trees
        pieces = tree.cover(_first_slot(before), 2 * end)
        kept = Expression()
        if fetches:
            kept = Expression.of(linear.column(0, 1, integer=whole))
            linear.at_least(value.held.add(kept, -1.0))
        self._use_at_touch(buffer, value, before, kept)
        there, in_hbm = kept, value.in_hbm
        stretch = Stretch(kept, [(-1, -1, kept)], [(-1, -1, in_hbm)])
        self._placement.stretches[buffer, end] = stretch
        for number, (node, first, last) in enumerate(pieces):
            final = whole and number == len(pieces) - 1
            there_before, in_hbm_before = there, in_hbm
            if writes_back:
                in_hbm = Expression.of(linear.column(0, 1, integer=final))
                self._copy(tree, node, in_hbm_before, in_hbm, seconds)
                stretch.in_hbm.append((first, last, in_hbm))
            if fetches:
                there = Expression.of(linear.column(0, 1, integer=final))
                self._copy(tree, node, there_before, there, seconds)
                stretch.fetched.append((first, last, there))
            span = max(first // 2, before.instruction + 1), min((last - 1) // 2, end - 1)
            resident, left = (there, in_hbm_before) if self._rules.in_flight else (there_before, in_hbm)
            self._use_between(buffer, value, span, resident, left if writes_back and lives else None)
        for other in others:
            nodes = [node for node, _, _ in pieces]
            if writes_back:
                self._spread(other, nodes, value.in_hbm, in_hbm, seconds)
            if fetches:
                self._spread(other, nodes, kept, there, seconds)
        if not value.fixed:
            outside = in_hbm.add(value.filling)
            if fetches:
                linear.at_least(outside.add(kept).add(there, -1.0))  # a prefetch reads HBM
            if lives and fetches:
                linear.at_least(outside.add(kept), 1.0)  # what is not in HBM has stayed
            if value.filling.terms or not lives:  # a write-back reads fast memory
                linear.at_least(value.in_hbm.add(value.held).add(there).add(kept, -1.0).add(in_hbm, -1.0))
        return _Value(value.writer, there, in_hbm, value.fixed, Expression())

    def _copy(self, tree: SlotTree, node: int, earlier: Expression, later: Expression, seconds: float) -> None:
        """Lets a share grow from `earlier` to `later` by copying within a node's slots."""
        grown = later.add(earlier, -1.0)
        self._linear.at_least(grown)
        if self._rules.thrift > 0 and tree is self._placement.trees[0]:
            for column, value in grown.terms.items():
                self._linear.cost[column] += self._rules.thrift * seconds * value
        tree.take(node, grown, seconds)

    def _spread(self, tree: SlotTree, nodes: list[int], earlier: Expression, later: Expression, seconds: float) -> None:
        """Lets a share grow from `earlier` to `later` by copying within the slots of several nodes."""
        for node in nodes[:-1]:
            level = Expression.of(self._linear.column())
            self._copy(tree, node, earlier, level, seconds)
            earlier = level
        self._copy(tree, nodes[-1], earlier, later, seconds)

    # ---- room -------------------------------------------------------------------------------------------------------

    def _use(self, instruction: int, buffer: int, share: Expression) -> None:
        if instruction in self._used:
            self._used[instruction].include(share, float(self._program.size[buffer]) / self._unit_bytes)

    def _use_at_touch(self, buffer: int, value: _Value, before: _Before, kept: Expression) -> None:
        """While the first touch runs, there is what it reads or writes, and what stays beyond it."""
        t = before.instruction
        if t not in self._used:
            return
        if not kept.terms or (not before.spanned and not value.filling.terms):
            self._use(t, buffer, before.here)  # what stays after a write is what was written
            return
        both = Expression.of(self._linear.column())
        self._linear.at_least(both.add(before.here, -1.0))
        self._linear.at_least(both.add(kept, -1.0))
        self._use(t, buffer, both)

    def _use_between(
        self, buffer: int, value: _Value, span: tuple[int, int], there: Expression, in_hbm: Expression | None
    ) -> None:
        """While instructions `span` run, there is at least `there`, and what is not `in_hbm` yet but still needed."""
        first, last = span
        if last < first or self._short_before[last + 1] == self._short_before[first]:
            return
        share = there
        if in_hbm is not None:
            share = Expression.of(self._linear.column())
            self._linear.at_least(share.add(there, -1.0))
            self._linear.at_least(share.add(in_hbm).add(value.filling), 1.0)
        for t in range(first, last + 1):
            self._use(t, buffer, share)


def _first_slot(before: _Before) -> int:
    """The first slot in which a copy may run after a touch: beside a read, but not beside a write."""
    return 2 * before.instruction + (1 if before.spanned else 2)
