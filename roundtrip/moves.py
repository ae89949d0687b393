"""Moves from one encoding to another: towards a mapping, and at random.

Moves towards a mapping follow squeaky wheel optimization (Joslin and Clements 1999): a buffer that only the mapping has
in fast memory moves forward; a buffer that only the decoding has there moves back, or stays in HBM. A move takes one
such buffer, or many, up to all: a long program has thousands and is decoded a few dozen times a second. Most moves of
many take buffers that are used in the same way, such as one of every layer.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..env.program.compiler_flags import KEEPS, ORDER, PREFETCHES
from ..env.program.kernel_colors import FAST
from ..env.program.mapping import Mapping
from ..env.program.program import OPERAND
from ..solvers.order.flags import neighbours
from .alike import alike_buffers
from .encoding import Codec, Encoding
from .wanted import Wanted

# Share of random moves, which are needed when no move towards the mapping helps; and of the moves towards it, the share
# that changes what is kept in HBM.
_RANDOM, _KEEPS = 0.5, 0.4
# Random moves and their shares.
_MOVES = (
    *(("swap", 0.25), ("first", 0.15), ("last", 0.1), ("wanted starts", 0.15), ("start", 0.1), ("keep", 0.25)),
    *(("cross", 0.05), ("flags", 0.05)),
)
# The moves that need an option.
_BY_OPTION = {
    ORDER: ("swap", "first", "last", "cross"),
    PREFETCHES: ("wanted starts", "start"),
    KEEPS: ("keep",),
}
# Share of the moves `keep` that keep first values of buffers, in programs that write over inputs in place.
_VALUES = 0.3
# Share of the moves `cross` that leave the choice to the compiler.
_NONE_ACROSS = 0.2
# Share of moves that choose the memory of kernels' arrays, in programs whose kernels the compiler colors; and of these,
# the share towards the mapping.
_COLORS, _COLORED_AS_WANTED = 0.25, 0.5
# Share of the moves `start` that are about uses by loops, in programs with loops.
_BY_LOOPS = 0.5
# Half of the random picks are from this share of the buffers, those that move most bytes.
_TOP = 0.3
# Share of moves of many that take all buffers of a few kinds; buffers of a kind are used in the same way, and what
# suits one layer suits most. And how many kinds are a few.
_ALIKE, _FEW = 0.8, 4


class Moves:
    """Draws moves for one program and mapping."""

    def __init__(self, codec: Codec, wanted: Wanted, draw: np.random.Generator) -> None:
        """Prepares the tables; `draw` draws."""
        self._codec, self._wanted, self._draw = codec, wanted, draw
        program = codec.program
        moved = program.access_bytes * program.weight[program.access_instruction]
        worth = np.bincount(program.access_buffer, weights=moved, minlength=program.num_buffers)
        worth[~codec.major] = -1.0
        self._by_worth = np.argsort(-worth, kind="stable")[: int(codec.major.sum())]
        self._reads = np.flatnonzero((program.access_kind == OPERAND) & codec.major[program.access_buffer])
        self._begins = np.append(program.access_instruction, program.loop_first[codec.by_loops[:, 0]])
        startable = np.flatnonzero(codec.startable & codec.major[codec.started])
        self._by_loops = startable[startable >= program.num_accesses]
        self._alike = alike_buffers(program)
        self._overwritten = np.flatnonzero(codec.keepable_values)
        refused = [move for option in codec.refused for move in _BY_OPTION.get(option, ())]
        self._names, shares = zip(*(one for one in _MOVES if one[0] not in refused), strict=True)
        self._shares = np.cumsum(shares) / sum(shares)

    def moved(self, encoding: Encoding, decoded: Mapping) -> Encoding:
        """Returns an encoding with one move made; `decoded` is what it decodes to."""
        if len(self._codec.arrays.access) and self._draw.random() < _COLORS:
            return self._colored(encoding, decoded)
        if self._draw.random() < _RANDOM:
            return self._at_random(encoding)
        wanted = self._wanted.mapping.access_fast
        unlike = np.flatnonzero(decoded.access_fast != wanted)
        unlike = unlike[self._codec.major[self._codec.program.access_buffer[unlike]]]
        if not len(unlike):
            return self._at_random(encoding)
        if self._draw.random() < _KEEPS and KEEPS not in self._codec.refused:
            return self._kept_as_wanted(encoding, unlike)
        if ORDER in self._codec.refused:
            return self._at_random(encoding)
        return self._ordered_as_wanted(encoding, unlike)

    def _ordered_as_wanted(self, encoding: Encoding, unlike: NDArray[np.int64]) -> Encoding:
        program, wanted = self._codec.program, self._wanted.mapping.access_fast
        order = self._told(encoding)
        missed = np.zeros(program.num_buffers)
        signed = np.where(wanted[unlike], 1.0, -1.0) * (program.access_bytes[unlike] + 1.0)
        np.add.at(missed, program.access_buffer[unlike], signed)
        wrong = np.flatnonzero(missed[order])
        if not len(wrong):
            return self._at_random(encoding)
        share = np.abs(missed[order[wrong]])
        places = self._some_of(wrong, order[wrong], share / share.sum())
        key = np.arange(len(order), dtype=np.float64)
        way = self._draw.random() ** 3  # mostly a short one
        forward = missed[order[places]] > 0.0
        key[places] += np.where(forward, -way * (places + 1.0), way * (len(order) - places))
        return replace(encoding, order=order[np.argsort(key, kind="stable")], own_order=False)

    def _kept_as_wanted(self, encoding: Encoding, unlike: NDArray[np.int64]) -> Encoding:
        wanted = self._wanted
        chosen = self._some_of(unlike, self._codec.program.access_buffer[unlike])
        buffers = self._codec.program.access_buffer[chosen]
        kept_buffers, kept_reads = encoding.kept_buffers.copy(), encoding.kept_reads.copy()
        kept_buffers[buffers] = wanted.kept_buffers[buffers]
        kept_reads[chosen] = wanted.kept_reads[chosen]
        kept_values = encoding.kept_values.copy()
        kept_values[buffers] = wanted.kept_values[buffers]
        return replace(encoding, kept_buffers=kept_buffers, kept_reads=kept_reads, kept_values=kept_values)

    def _at_random(self, encoding: Encoding) -> Encoding:
        if not len(self._by_worth) or not len(self._reads):
            return encoding
        move = self._names[int(np.searchsorted(self._shares, self._draw.random()))]
        if move == "wanted starts":
            return self._started_as_wanted(encoding)
        if move == "start":
            return self._started_at_random(encoding)
        if move == "keep":
            return self._kept_at_random(encoding)
        if move == "flags":
            return self._under_other_flags(encoding)
        if move == "cross":
            return self._crossed_at_random(encoding)
        order = self._told(encoding)
        if not len(order):
            return encoding
        place = np.flatnonzero(order == self._pick())
        here = int(place[0]) if len(place) else int(self._draw.integers(len(order)))
        if move == "swap":
            order = order.copy()
            there = int(self._draw.integers(len(order)))
            order[[here, there]] = order[[there, here]]
        else:
            order = np.insert(np.delete(order, here), 0 if move == "first" else len(order) - 1, order[here])
        return replace(encoding, order=order, own_order=False)

    def _started_as_wanted(self, encoding: Encoding) -> Encoding:
        wanted = np.flatnonzero(self._wanted.starts >= 0)
        if not len(wanted):
            return self._started_at_random(encoding)
        starts = encoding.starts.copy()
        chosen = self._some_of(wanted, self._codec.started[wanted])
        starts[chosen] = np.where(starts[chosen] >= 0, -1, self._wanted.starts[chosen])
        return replace(encoding, starts=starts)

    def _started_at_random(self, encoding: Encoding) -> Encoding:
        program = self._codec.program
        of_loop = len(self._by_loops) and self._draw.random() < _BY_LOOPS
        at = int(self._draw.choice(self._by_loops if of_loop else self._reads))
        starts = encoding.starts.copy()
        if starts[at] >= 0 and self._draw.random() < 0.5:
            starts[at] = -1
        else:
            first = max(0, int(program.definition[self._codec.started[at]]))
            last = int(self._begins[at])
            starts[at] = int(self._draw.integers(min(first, last - 1), last)) if last > 0 else -1
        return replace(encoding, starts=starts)

    def _kept_at_random(self, encoding: Encoding) -> Encoding:
        if len(self._overwritten) and self._draw.random() < _VALUES:
            values = encoding.kept_values.copy()
            chosen = self._some_of(self._overwritten, self._overwritten)
            few = self._draw.integers(1, self._codec.keepable_values[chosen] + 1)
            values[chosen] = np.where(values[chosen] > 0, 0, few)
            return replace(encoding, kept_values=values)
        if self._draw.random() < 0.5:
            kept = encoding.kept_buffers.copy()
            buffers = np.flatnonzero(self._codec.keepable if self._draw.random() < 0.5 else kept)
            if len(buffers):
                kept[self._some_of(buffers, buffers)] ^= True
            return replace(encoding, kept_buffers=kept)
        kept = encoding.kept_reads.copy()
        reads = np.flatnonzero(self._codec.may_keep if self._draw.random() < 0.5 else kept)
        if len(reads):
            kept[self._some_of(reads, self._codec.program.access_buffer[reads])] ^= True
        return replace(encoding, kept_reads=kept)

    def _under_other_flags(self, encoding: Encoding) -> Encoding:
        others = neighbours(encoding.flags, self._codec.program, self._codec.target)
        return self._codec.under(encoding, others[int(self._draw.integers(len(others)))])

    def _crossed_at_random(self, encoding: Encoding) -> Encoding:
        crossable = self._codec.crossable
        if not len(crossable) or self._draw.random() < _NONE_ACROSS:
            return replace(encoding, cross=())
        cross = self._codec.across([int(self._draw.choice(crossable))])
        return replace(encoding, cross=cross, flags=replace(encoding.flags, cross_program=True))

    def _colored(self, encoding: Encoding, decoded: Mapping) -> Encoding:
        """Chooses the memory of some arrays of kernels: as the mapping has it, or the other one."""
        access, wanted = self._codec.arrays.access, self._wanted.mapping.access_fast
        unlike = access[decoded.access_fast[access] != wanted[access]]
        buffer = self._codec.program.access_buffer
        if len(unlike) and self._draw.random() < _COLORED_AS_WANTED:
            chosen = self._some_of(unlike, buffer[unlike])
            return self._codec.colored(encoding, chosen, wanted[chosen])
        chosen = self._some_of(access, buffer[access])
        colors = self._codec.arrays.own if encoding.colors is None else encoding.colors
        return self._codec.colored(encoding, chosen, colors[chosen] != FAST)

    def _some_of(
        self, among: NDArray[np.int64], buffers: NDArray[np.integer], p: NDArray[np.float64] | None = None
    ) -> NDArray[np.int64]:
        """Draws some of `among[M]`, weighted by `p[M]` if given; or a few, and all others of the same kinds."""
        if self._draw.random() >= _ALIKE:
            return self._draw.choice(among, self._some(len(among)), replace=False, p=p)
        drawn = self._draw.choice(len(among), self._some(min(len(among), _FEW)), replace=False, p=p)
        kinds = self._alike[buffers]
        return among[np.isin(kinds, kinds[drawn])]

    def _pick(self) -> int:
        """Returns a random buffer; those that move most bytes are more likely."""
        most = len(self._by_worth)
        top = max(1, int(_TOP * most))
        return int(self._by_worth[self._draw.integers(top if self._draw.random() < 0.5 else most)])

    def _told(self, encoding: Encoding) -> NDArray[np.int64]:
        return self._codec.told(encoding.order) if encoding.own_order else encoding.order

    def _some(self, most: int) -> int:
        """Returns a number from 1 to `most`; all orders of magnitude are equally likely."""
        return int(most ** self._draw.random())
