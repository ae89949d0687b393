"""XLA's assignment as a function from an order of buffers and preferred prefetch times to a mapping."""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...env.program.kernel_colors import FREE, own_colors
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.program.target import Target
from . import cross_program, loop_optimiser
from .assign import assign
from .buffer_order import BufferOrder
from .build_problem import make_problem
from .colors import color_wishes
from .legal import legal
from .options import Options, production
from .state import FAST, State, Wishes, is_full, make_state, size_of
from .write import Writer

_MOST_GROWTH = 64
# Decimal places of eagerness that the compiler's text keeps.
_PLACES = 6
# States that no decoder uses now, by what decides their sizes. They are large, and each decode empties its own.
_idle_states: WeakKeyDictionary[Program, dict[tuple[Target, int, int, int], list[State]]] = WeakKeyDictionary()


class Decoder:
    """XLA's memory space assignment for one program.

    The tables that do not depend on the order are built once; a decode then takes some milliseconds.

    Attributes:
      program, target, options: as given.
      cross: inputs that it prefetches across programs unless others are asked for.
      by_loops: `[W, 2]` a loop, and a buffer that it uses as a whole: such a use may wait for a prefetch, like an
        access.
    """

    def __init__(self, program: Program, target: Target | None = None, options: Options | None = None) -> None:
        """Prepares a program.

        Args:
          program: the program.
          target: the hardware; None for the program's own.
          options: settings; None for the compiler's for that target.
        """
        self.program = program
        self.target = program.target if target is None else target
        self.options = production(self.target) if options is None else options
        self.problem, self._accesses = make_problem(program, self.target, self.options)
        if self.options.loop_optimiser:
            loop_optimiser.optimise(program, self.target, self.options, self.problem, self._accesses)
        self._order = BufferOrder(program, self.target, self.options, self.problem)
        self.cross = cross_program.candidates(program, self.problem)[: self.options.cross_program]
        own = own_colors(program)
        self._own_colors, self._colored = color_wishes(self.problem, self._accesses, own), bool((own != FREE).any())
        self._factor = 1
        self._writer = Writer(program, self.problem, self._accesses)
        self._of_access = np.full(program.num_accesses, -1, np.int64)
        self._of_access[self._accesses.links[:, 1]] = self._accesses.links[:, 0]
        self.by_loops: NDArray[np.int64] = self._accesses.loops[:, 1:]
        self._started_for = np.append(self._of_access, self._accesses.loops[:, 0])

    def decode(
        self,
        priority: ArrayLike | None = None,
        wanted_start: ArrayLike | None = None,
        in_hbm: NDArray[np.bool_] | None = None,
        cross: Sequence[int] = (),
        colors: NDArray[np.int8] | None = None,
    ) -> Mapping:
        """Returns a legal mapping: that of `decode_roughly`, repaired."""
        return self.repaired(self.decode_roughly(priority, wanted_start, in_hbm, cross, colors))

    def repaired(self, mapping: Mapping) -> Mapping:
        """Returns a mapping of `decode_roughly` without violations.

        Only loops, collectives and colors can cause any. The repair takes several times as long as the decode.
        """
        return mapping if self.is_exact else legal(self.program, self.target, mapping)

    @property
    def is_exact(self) -> bool:
        """Whether mappings of `decode_roughly` break no rule, so that `repaired` returns them as they are."""
        return not len(self.program.loop_trips) and self.program.held_since is None and not self._colored

    def decode_roughly(
        self,
        priority: ArrayLike | None = None,
        wanted_start: ArrayLike | None = None,
        in_hbm: NDArray[np.bool_] | None = None,
        cross: Sequence[int] = (),
        colors: NDArray[np.int8] | None = None,
    ) -> Mapping:
        """Returns what XLA does, which may break a rule of mappings: a stay may end within a loop that it entered.

        The latency hardly ever differs from that of the repaired mapping, so searches skip the repair.

        Args:
          priority: `[N]` per buffer; buffers with lower numbers are placed first, equal ones in XLA's own order
            (`xla_tpu_msa_sort_order_overrides`), and those with infinity stay in HBM. None: all equal.
          wanted_start: `[A]` per access, or `[A + W]` with `by_loops` behind; integers name the instruction after which
            a prefetch for it should start (`xla_tpu_preferred_prefetch_overrides`), floats in 0..1 its place between
            the definition of the value, 0, and the use, 1; negative numbers stand for no preference. Such a prefetch is
            not checked against the bandwidth. None: no preferences.
          in_hbm: `[A]` whether an access must be served from HBM (`keep_in_default_memory` of
            `xla_tpu_msa_tensor_overrides`); of accesses that are served together, one suffices. None: no access.
          cross: inputs to prefetch across programs before the compiler's own choice, the first ones first
            (`apply_to_cross_program_prefetches` of `xla_tpu_msa_sort_order_overrides`), of `crossable`.
          colors: `[A]` the memory that a kernel must have an access in: 0 for HBM, 1 for fast memory, -1 for either
            (`xla_tpu_tpu_custom_call_memory_space_spec`). None: the compiler's own.
        """
        chosen = self.cross
        if len(cross):
            rest = self.cross[~np.isin(self.cross, cross)]
            chosen = np.concatenate([np.asarray(cross, np.int64), rest])[: self.options.cross_program]
        order = self._order.buffers(None if priority is None else np.asarray(priority))
        preferred_time = (
            self.problem.preferred_time if wanted_start is None else self._preferred_times(np.asarray(wanted_start))
        )
        self._colored |= colors is not None and bool((colors != FREE).any())
        value_color, use_color = (
            self._own_colors if colors is None else color_wishes(self.problem, self._accesses, colors)
        )
        wishes = Wishes(
            order=self._colored_first(order, value_color, use_color),
            cross=chosen,
            preferred_time=preferred_time,
            in_hbm=self._uses_in_hbm(in_hbm),
            value_color=value_color,
            use_color=use_color,
        )
        assigned = self._assign(wishes)
        while assigned is None:
            if self._factor >= _MOST_GROWTH:
                raise RuntimeError(f"program {self.program.name!r}: the tables of the xla solver are too small")
            self._factor *= 2
            assigned = self._assign(wishes)
        return assigned

    def _assign(self, wishes: Wishes) -> Mapping | None:
        """Returns a mapping; None if a table of the state overflowed."""
        idle = _idle_states.setdefault(self.program, {}).setdefault(
            (self.target, self._factor, *size_of(self.problem)), []
        )
        state = idle.pop() if idle else make_state(self.problem, self._factor)
        assign(self.problem, state, wishes)
        assigned = None if is_full(state) else self._writer.mapping(state)
        idle.append(state)
        return assigned

    def crossable(self) -> NDArray[np.int64]:
        """Returns the inputs that an option can have prefetched across programs.

        Inputs that a loop reads are left out: the compiler crashes if it is told to prefetch one.
        """
        possible = cross_program.possible(self.program, self.problem)
        inside = self.program.access_buffer[self.program.loop[self.program.access_instruction] >= 0]
        return possible[~np.isin(possible, inside)]

    def order(self) -> NDArray[np.int64]:
        """Returns the buffers to place, in XLA's own order."""
        return self._order.buffers(without=self.cross.tolist())

    def _colored_first(
        self, order: NDArray[np.int64], value_color: NDArray[np.int8], use_color: NDArray[np.int8]
    ) -> NDArray[np.int64]:
        """Returns an order with the buffers in front that have to be in fast memory at some time."""
        value = self.problem.value
        of_use = np.repeat(value["buffer"], value["end_use"] - value["first_use"])
        first = np.zeros(len(self.problem.buffer), bool)
        first[value["buffer"][value_color == FAST]] = True
        first[of_use[use_color == FAST]] = True
        return order[np.argsort(~first[order], kind="stable")]

    def _uses_in_hbm(self, in_hbm: NDArray[np.bool_] | None) -> NDArray[np.int8]:
        found = np.zeros(len(self.problem.use), np.int8)
        if in_hbm is not None:
            uses = self._of_access[in_hbm]
            found[uses[uses >= 0]] = 1
        return found

    def starts(self, eagerness: NDArray[np.float64]) -> NDArray[np.int64]:
        """Returns `[A + W]` wanted starts as instructions, where `eagerness[A]` is 0 or more, else -1; see `decode`."""
        asked = np.flatnonzero((eagerness >= 0.0) & (self._of_access >= 0))
        times = self._preferred_times(eagerness)[self._of_access[asked]]
        found = np.full(len(self._started_for), -1)
        found[asked] = np.maximum(np.searchsorted(self.program.schedule_index, times, side="right") - 1, 0)
        return found

    def eagerness(self, wanted_start: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns `[A + W]` the eagerness that makes the compiler start prefetches after the given instructions.

        Eagerness counts from 0, the time from which the value is of use, to 1, that of the access, or of the last
        instruction before a loop. A value is of use from its definition on, or since its last access before (XLA:
        `GetPrefetchTimeByEagerness`). It is -1 where there is no start, and for accesses for which the compiler decides
        nothing.
        """
        found = np.full(len(wanted_start), -1.0)
        chosen = np.flatnonzero((wanted_start >= 0) & (self._started_for >= 0))
        uses = self._started_for[chosen]
        times_of_use = self.problem.use["time"]
        since = self._writer.defined.copy()
        later = np.setdiff1d(np.arange(len(since)), self.problem.value["first_use"])
        since[later] = np.maximum(since[later], times_of_use[later - 1])
        ends, begins = self.problem.use["latest"][uses], since[uses]
        times = self.program.schedule_index[wanted_start[chosen]]
        length = np.maximum(ends - begins, 1)
        # In the middle between two times, because the compiler cuts the product off.
        middle = np.clip((times - begins + 0.5) / length, 0.0, 1.0)
        found[chosen] = _shortest(middle, 0.4 / length)
        return found

    def _preferred_times(self, wanted: NDArray[np.float64] | NDArray[np.int64]) -> NDArray[np.int64]:
        preferred_time = self.problem.preferred_time.copy()
        of_use = self._started_for[: len(wanted)]
        chosen = np.flatnonzero((wanted >= 0) & (of_use >= 0))
        uses = of_use[chosen]
        if wanted.dtype.kind == "f":
            ends = self.problem.use["time"][uses]
            begins = self._writer.defined[uses]
            preferred_time[uses] = (begins + wanted[chosen] * (ends - begins)).astype(np.int64)
        else:
            preferred_time[uses] = self.program.schedule_index[wanted[chosen]]
        return preferred_time


def _shortest(numbers: NDArray[np.float64], off: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns numbers with the fewest decimal places, six at most, that are no further than `off` from the given ones.

    The compiler prints these as they are written, so that its dump shows whether it took them.
    """
    found = np.round(numbers, _PLACES)
    for places in range(_PLACES - 1, -1, -1):
        rounded = np.round(numbers, places)
        near = np.abs(rounded - numbers) <= off
        found[near] = rounded[near]
    return found
