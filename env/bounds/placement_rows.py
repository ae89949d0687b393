"""Adds the columns and rows of a relaxation that place buffers; they do not depend on the cost model.

A legal mapping gives each column a value such that every row holds, so the least cost over all values is no more than
the mapping's. docs/bounds.md says which rule of the physics each row is, and which rules have no row.
"""

from dataclasses import dataclass

import numpy as np

from ..program.program import Program
from ..program.target import Target
from .capacity_rows import CapacityRows
from .deadline import NO_DEADLINE, Deadline
from .linear_program import Expression, LinearProgram
from .placement import Placement, Rules, Stretch
from .slot_tree import SlotTree
from .touches import Touch, may_be_fast, replaceable, touches


@dataclass(frozen=True)
class _Value:
    """The value of a buffer after a touch.

    Attributes:
      writer: instruction that wrote it, -1 for the program input.
      held: share in fast memory right after the touch.
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
    """The touch at the start of a stretch.

    Attributes:
      instruction: its instruction, -1 for the start of the program.
      spanned: copies of the value may run beside it, as beside a read.
      here: its column: 1 if it is served from fast memory.
    """

    instruction: int
    spanned: bool
    here: Expression


def add_placement(
    program: Program,
    target: Target,
    linear: LinearProgram,
    rules: Rules,
    left_out: frozenset[int],
    unit_s: float,
    clocks: int = 1,
    deadline: Deadline = NO_DEADLINE,
) -> Placement:
    """Adds the columns and rows that place the buffers of a program.

    Args:
      program: the program.
      target: the hardware.
      linear: takes the columns and rows.
      rules: freedoms of the mappings.
      left_out: buffers that count as fast everywhere at no cost; a bound stays a bound.
      unit_s: the unit of time in seconds.
      clocks: number of cost models under which the copies have to fit.
      deadline: time limit.

    Raises:
      TimeIsUp: the limit has passed.
    """
    return _Builder(program, target, linear, rules, left_out, unit_s, clocks).build(deadline)


class _Builder:
    """Adds buffers one by one."""

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
        self._copy_rate = target.hbm_bandwidth * unit_s * rules.copy_rate  # bytes per unit of time
        trees = [SlotTree(2 * program.num_instructions + 1) for _ in range(clocks)]
        self._placement = Placement({}, {}, {}, {}, {}, left_out, trees)
        possible = may_be_fast(program, target)
        self._played = possible.copy()
        self._played[list(left_out)] = False
        self._histories = touches(program)
        residents = [b for b in np.flatnonzero(self._played).tolist() if self._histories[b]]
        self._memory = CapacityRows(program, target, linear, rules, {b: self._histories[b] for b in residents})
        pairs = replaceable(program) if rules.replacements else {}
        self._pairs = {t: pair for t, pair in pairs.items() if possible[pair[1]]}

    def build(self, deadline: Deadline) -> Placement:
        """Adds everything and returns the meaning of the columns."""
        for t in self._pairs:
            self._placement.replaced[t] = self._linear.column(0, 1, integer=True)
        for buffer in np.flatnonzero(self._played).tolist():
            if self._histories[buffer]:
                deadline.check()
                self._buffer(buffer, self._histories[buffer])
        if self._rules.most_cross_program is not None:
            ahead = Expression(0.0, dict.fromkeys(self._placement.cross_program.values(), -1.0))
            self._linear.at_least(ahead, -float(self._rules.most_cross_program))
        self._memory.add_rows()
        return self._placement

    def _buffer(self, buffer: int, history: list[Touch]) -> None:
        """Adds a buffer: its touches, and the stretches between them, in which copies run."""
        program, linear, steps = self._program, self._linear, self._program.num_instructions
        is_input, is_output = bool(program.definition[buffer] < 0), bool(program.is_output[buffer])
        cross: Expression | None = None
        if is_input and self._rules.most_cross_program != 0 and not any(touch.writes for touch in history):
            ahead = self._placement.cross_program[buffer] = linear.column(0, 1, integer=self._rules.whole)
            cross = Expression.of(ahead)
        nothing = Expression()
        value = _Value(-1, cross or nothing, Expression(1.0 if is_input else 0.0), is_input, nothing)
        before = _Before(-1, False, nothing)
        read_by: list[int] = []  # replaceable instructions that read the value
        for touch in history:
            t = touch.instruction
            column = linear.column(0, float(touch.may_be_fast), integer=True)
            self._placement.fast[t, buffer] = column
            here = Expression.of(column)
            instead = Expression.of(self._placement.replaced[t]) if t in self._pairs else nothing
            if instead.terms:  # the accesses of a replaced instruction do not count
                linear.at_least(here.add(instead).scaled(-1.0), -1.0)
            value = self._stretch(buffer, value, before, t, touch.reads, touch.reads, bool(read_by))
            if touch.reads:
                linear.at_least(value.held.add(here, -1.0))  # fast reads find all of the value there
                elsewhere = value.in_hbm.add(instead)  # and others find it in HBM
                linear.at_least(elsewhere if touch.slow else here.add(elsewhere), 1.0)
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
            linear.at_least(value.held.add(cross, -1.0))  # the next execution finds the share that this one found
        if is_output:
            linear.at_least(value.in_hbm, 1.0)
        self._close(buffer, value, read_by)

    def _close(self, buffer: int, value: _Value, read_by: list[int]) -> None:
        """Ends the life of a value. A copy that replaced a reader of it needs it in HBM."""
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
        """Adds a stretch between two touches; returns the value right before the second.

        Args:
          buffer: the buffer.
          value: its value after the first touch.
          before: the first touch.
          end: instruction of the second; `T` for the program's end.
          fetches: the second touch may read it in fast memory: it may be kept and prefetched.
          lives: the second touch, or the end of the program, needs it: bytes that are not in HBM must stay.
          leaves: a copy may read it in HBM: it may be written back even if no touch needs that.
        """
        linear = self._linear
        seconds = float(self._program.size[buffer]) / self._copy_rate
        writes_back = not value.fixed and (lives or leaves)
        fetches |= bool(value.filling.terms)
        if not fetches and not writes_back:
            self._memory.use(before.instruction, buffer, before.here)
            return value
        whole = self._rules.whole
        tree, *others = self._placement.trees
        pieces = tree.cover(_first_slot(before), 2 * end)
        kept = Expression()
        if fetches:
            kept = Expression.of(linear.column(0, 1, integer=whole))
            linear.at_least(value.held.add(kept, -1.0))
        # The bytes that stay after a write are those it wrote, unless a copy that replaces it fills in others.
        apart = before.spanned or bool(value.filling.terms)
        self._memory.use_at_touch(before.instruction, buffer, before.here, kept if apart else Expression())
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
            elsewhere = left.add(value.filling) if writes_back and lives else None
            self._memory.use_between(span, buffer, resident, elsewhere)
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
                linear.at_least(outside.add(kept), 1.0)  # the share that is not in HBM has stayed
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


def _first_slot(before: _Before) -> int:
    """Returns the first slot in which a copy may run after a touch: beside a read, but not beside a write."""
    return 2 * before.instruction + (1 if before.spanned else 2)
