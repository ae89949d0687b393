"""Encodings: compiler options in a form that our copy of the compiler's algorithm decodes into a mapping."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..env.errors import FormatError
from ..env.physics.objective import Judge
from ..env.program.assignment_facts import LoopOperand, assignment_facts
from ..env.program.compiler_flags import COLORS, KEEPS, ORDER, PREFETCHES, REFUSED, CompilerOptions
from ..env.program.kernel_colors import FAST
from ..env.program.mapping import Mapping
from ..env.program.program import OPERAND, RESULT, Program
from ..solvers.common.budget import Budget
from ..solvers.common.task import Task
from ..solvers.order.flags import Flags
from ..solvers.order.individual import Evaluator, Individual
from ..solvers.xla.typical_size import fitted_typical_bytes
from .kernel_arrays import KernelArrays
from .options import flag_options, keep_option, order_option, prefetch_option

# The kind without options.
DEFAULT = "default"


@dataclass(frozen=True, eq=False)
class Encoding:
    """Options in the form that the decoder takes.

    Shapes: `K` buffers that are placed, `N` buffers, `A` accesses, `W` uses by loops (`Decoder.by_loops`).

    Attributes:
      order: `[K]` buffers, first to last.
      starts: `[A + W]` the instruction after which a prefetch for an access, or for a use by a loop, should start, or
        -1.
      kept_buffers: `[N]` whether a buffer stays in HBM.
      kept_reads: `[A]` whether a read is served from HBM.
      kept_values: `[N]` how many of a buffer's values stay in HBM, from the first one on; those written over them in
        place need not.
      flags: the settings of the flags.
      own_order: whether `order` is the compiler's own, which needs no option.
      cross: inputs to prefetch across programs; none for the compiler's own choice.
      colors: `[A]` the memories of kernels' arrays (`kernel_arrays.py`); None for the compiler's own choice.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    kept_buffers: NDArray[np.bool_]
    kept_reads: NDArray[np.bool_]
    kept_values: NDArray[np.int64]
    flags: Flags
    own_order: bool = False
    cross: tuple[int, ...] = ()
    colors: NDArray[np.int8] | None = None

    @property
    def kind(self) -> str:
        """The parts that need an option: `order`, `starts`, `keeps`, `cross`, `colors`, `flags`, joined by `+`;
        `default` without any."""
        told = {
            "order": not self.own_order,
            "starts": bool((self.starts >= 0).any()),
            "keeps": bool(self.kept_buffers.any() or self.kept_reads.any() or self.kept_values.any()),
            "cross": any(not self.kept_buffers[buffer] for buffer in self.cross),
            "colors": self.colors is not None,
            "flags": self.flags != Flags(),
        }
        return "+".join(what for what, is_told in told.items() if is_told) or DEFAULT

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Returns the fields as arrays, for `from_arrays`."""
        return {
            **vars(self),
            "flags": self.flags.array(),
            "cross": np.array(self.cross, np.int64),
            "colors": np.zeros(0, np.int8) if self.colors is None else self.colors,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> "Encoding":
        """Returns the encoding that `arrays` came from."""
        return cls(
            order=arrays["order"],
            starts=arrays["starts"],
            kept_buffers=arrays["kept_buffers"],
            kept_reads=arrays["kept_reads"],
            kept_values=arrays["kept_values"],
            flags=Flags.from_array(arrays["flags"]),
            own_order=bool(arrays["own_order"]),
            cross=tuple(arrays["cross"].tolist()),
            colors=arrays["colors"] if len(arrays["colors"]) else None,
        )


class Codec:
    """Decodes encodings of one program, and writes them as compiler options.

    Shapes: `N` buffers, `A` accesses, `W` uses by loops (`Decoder.by_loops`).

    Attributes:
      program, target: the judge's.
      major: `[N]` whether a buffer matters enough for an option. Naming others costs compile time and gains nothing.
      keepable: `[N]` whether keeping a buffer in HBM can gain. Buffers of loops are left out: no option names what a
        loop carries from trip to trip.
      may_keep: `[A]` whether a read may be kept in HBM while its buffer is not. The compiler also keeps the results
        of the same instruction that have the same shape index and are as large, and ends with an error if one of them
        is written in place. Of an instruction that reads a buffer twice, it may fetch the buffer to two places.
      keepable_values: `[N]` how many values of an input may be kept in HBM while the last ones are not: those that
        are written over in place.
      by_loops: `[W, 2]` a loop, and a buffer that it uses as a whole.
      loop_operands: for each use by a loop, the parts of the loop's operand that an option names; none if the capture
        did not keep them.
      started: `[A + W]` the buffer that each start is about.
      startable: `[A + W]` whether an option can name what the start is for.
      crossable: inputs that may be prefetched across programs. Inputs as large as an output are left out: the output
        may be the input's new value, and the previous execution would prefetch it before writing it.
      may_cross: `[N]` the inputs that options can have prefetched across programs: `crossable`, and those that the
        compiler prefetches by itself.
      arrays: the arrays of kernels that the compiler colors.
      typical_bytes: see `Options`; fitted to the compiler's own mapping.
      refused: the options that the compiler of the capture does not accept.
    """

    def __init__(self, judge: Judge, seed: int) -> None:
        """Prepares the judge's program.

        Raises:
          FormatError: an entry of the program's `compiler` section is not what `capture` writes.
        """
        self.program, self.target = judge.program, judge.target
        program = self.program
        task = Task(program, judge.target, judge.objective, Budget(None, 0), seed)
        self.typical_bytes = fitted_typical_bytes(program, judge.target)
        evaluator = Evaluator(task, self.typical_bytes)
        self.decoder = evaluator.decoder
        self.major: NDArray[np.bool_] = np.zeros(program.num_buffers, bool)
        self.major[evaluator.major] = True
        self.keepable = self.major.copy()
        self.keepable[program.access_buffer[program.loop[program.access_instruction] >= 0]] = False
        self.by_loops = self.decoder(Flags()).by_loops
        self.loop_operands = _loop_operands(program, self.by_loops)
        self.started: NDArray[np.int64] = np.append(program.access_buffer, self.by_loops[:, 1]).astype(np.int64)
        self.startable: NDArray[np.bool_] = np.append(
            np.ones(program.num_accesses, bool), np.array([bool(named) for named in self.loop_operands], bool)
        )
        crossable = self.decoder(Flags()).crossable()
        returned = np.isin(program.size[crossable], program.size[program.is_output])
        self.crossable: NDArray[np.int64] = crossable[~returned & self.major[crossable]]
        self.may_cross: NDArray[np.bool_] = np.zeros(program.num_buffers, bool)
        self.may_cross[self.crossable] = self.may_cross[self.decoder(Flags()).cross] = True
        self.refused = _refused(program)
        may_color = np.full(program.num_buffers, COLORS not in self.refused)
        self.arrays = KernelArrays(program, self.target, self.major & may_color)
        self._read, self._result = _alike(program)
        self.may_keep: NDArray[np.bool_] = (program.access_kind == OPERAND) & self.keepable[program.access_buffer]
        written = program.definition[program.access_buffer[self._result]]
        in_place = written != program.access_instruction[self._result]
        self.may_keep[self._read[in_place]] = False
        self.may_keep[_read_again(program)] = False
        self._overwrites = _overwrites(program)
        self.keepable_values: NDArray[np.int64] = np.array([len(writes) for writes in self._overwrites], np.int64)
        self.keepable_values[~self.keepable] = 0

    def default(self) -> Encoding:
        """Returns the encoding without options."""
        program = self.program
        return Encoding(
            order=self.decoder(Flags()).order(),
            starts=np.full(len(self.started), -1),
            kept_buffers=np.zeros(program.num_buffers, bool),
            kept_reads=np.zeros(program.num_accesses, bool),
            kept_values=np.zeros(program.num_buffers, np.int64),
            flags=Flags(),
            own_order=True,
        )

    def of_individual(self, individual: Individual) -> Encoding:
        """Returns an individual of `order-search` as an encoding."""
        return replace(
            self.default(),
            order=self.told(np.argsort(individual.keys, kind="stable")),
            starts=self.decoder(individual.flags).starts(individual.eagerness),
            kept_buffers=individual.banned & self.keepable,
            flags=individual.flags,
            own_order=False,
        )

    def sayable(self, encoding: Encoding) -> Encoding:
        """Returns an encoding without the parts whose options the compiler refuses."""
        if ORDER in self.refused and not (encoding.own_order and not encoding.cross):
            own = self.decoder(encoding.flags).order()
            encoding = replace(encoding, order=own, own_order=True, cross=())
        if PREFETCHES in self.refused:
            encoding = replace(encoding, starts=np.full_like(encoding.starts, -1))
        if KEEPS in self.refused:
            kept = ("kept_buffers", "kept_reads", "kept_values")
            encoding = replace(encoding, **{name: np.zeros_like(getattr(encoding, name)) for name in kept})
        return encoding

    def told(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """Returns the buffers of an order that matter enough to be named."""
        return order[self.major[order]]

    def across(self, inputs: Sequence[int]) -> tuple[int, ...]:
        """Returns the `inputs` that an option can have prefetched across programs; none if they are the ones that the
        compiler prefetches anyway."""
        own = self.decoder(Flags()).cross.tolist()
        return () if list(inputs) == own else tuple(buffer for buffer in inputs if buffer in self.crossable)

    def keeps(self, mapping: Mapping) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns what a mapping keeps in HBM: `[N]` buffers, `[A]` reads, and the reads that force no result into HBM.

        The reads are of buffers that the mapping also has in fast memory. Most of these reads force a result into HBM
        that the mapping has in fast memory.
        """
        program = self.program
        fast = np.zeros(program.num_buffers, bool)
        fast[program.access_buffer[mapping.access_fast]] = True
        reads = self.may_keep & ~mapping.access_fast & fast[program.access_buffer]
        alone = reads.copy()
        alone[self._read[fast[program.access_buffer[self._result]]]] = False
        return self.keepable & ~fast, reads, alone

    def values_kept(self, mapping: Mapping) -> NDArray[np.int64]:
        """Returns `[N]` how many values of a buffer a mapping keeps in HBM, from the first one on, but not all."""
        found = np.zeros(self.program.num_buffers, np.int64)
        for buffer in np.flatnonzero(self.keepable_values).tolist():
            fast = np.flatnonzero(mapping.access_fast & (self.program.access_buffer == buffer))
            if len(fast):
                found[buffer] = np.searchsorted(self._overwrites[buffer], fast[0], side="right")
        return found

    def decode(self, encoding: Encoding) -> Mapping:
        """Returns the mapping that the compiler is expected to make of an encoding (`Decoder.decode_roughly`)."""
        program = self.program
        priority = np.zeros(program.num_buffers)
        if not encoding.own_order:
            # Buffers outside the order come last, as in the compiler.
            priority[:] = len(encoding.order)
            priority[encoding.order] = np.arange(len(encoding.order))
        priority[self._kept(encoding)] = np.inf
        reads = self._reads(encoding)
        return self.decoder(encoding.flags).decode_roughly(
            priority,
            encoding.starts if (encoding.starts >= 0).any() else None,
            reads if reads.any() else None,
            self._across(encoding, self._kept(encoding)),
            self._colors(encoding),
        )

    def options(self, encoding: Encoding) -> CompilerOptions:
        """Returns an encoding as compiler options."""
        program = self.program
        kept = self._kept(encoding)
        placed = [] if encoding.own_order else encoding.order[~kept[encoding.order]].tolist()
        reads = encoding.kept_reads & ~kept[program.access_buffer]
        values = {b: int(encoding.kept_values[b]) for b in np.flatnonzero(encoding.kept_values * ~kept).tolist()}
        return {
            **flag_options(encoding.flags, self.target),
            **order_option(program, placed, self._across(encoding, kept)),
            **prefetch_option(program, self.decoder(encoding.flags).eagerness(encoding.starts), self.loop_operands),
            **keep_option(program, np.flatnonzero(kept).tolist(), np.flatnonzero(reads).tolist(), values),
            **self.arrays.option(self._colors(encoding)),
        }

    def under(self, encoding: Encoding, flags: Flags) -> Encoding:
        """Returns an encoding under other flags, under which the compiler's own order may differ."""
        encoding = replace(encoding, flags=flags, cross=encoding.cross if flags.cross_program else ())
        return replace(encoding, order=self.decoder(flags).order()) if encoding.own_order else encoding

    def colored(self, encoding: Encoding, accesses: NDArray[np.int64], fast: NDArray[np.bool_]) -> Encoding:
        """Returns an encoding with the color of some `accesses[M]` chosen, fast where `fast[M]` is true, if it fits."""
        own = self.arrays.own
        colors = self.arrays.with_color(own if encoding.colors is None else encoding.colors, accesses, fast)
        return replace(encoding, colors=None if np.array_equal(colors, own) else colors)

    def _colors(self, encoding: Encoding) -> NDArray[np.int8]:
        """Returns `[A]` the colors of an encoding; what stays in HBM is colored HBM."""
        arrays = self.arrays
        colors = arrays.own if encoding.colors is None else encoding.colors
        kept = self._kept(encoding)[self.program.access_buffer] | self._reads(encoding)
        out = arrays.access[kept[arrays.access] & (colors[arrays.access] == FAST)]
        return arrays.with_color(colors, out, np.zeros(len(out), bool)) if len(out) else colors

    def _across(self, encoding: Encoding, kept: NDArray[np.bool_]) -> list[int]:
        """Returns the inputs to prefetch across programs, without those that stay in HBM."""
        return [buffer for buffer in encoding.cross if not kept[buffer]]

    def _reads(self, encoding: Encoding) -> NDArray[np.bool_]:
        """Returns `[A]` the reads that are served from HBM, those of values that stay there included."""
        program, buffers = self.program, np.flatnonzero(encoding.kept_values).tolist()
        if not buffers:
            return encoding.kept_reads
        found = encoding.kept_reads.copy()
        for buffer in buffers:
            end = int(self._overwrites[buffer][encoding.kept_values[buffer] - 1])
            found[:end] |= (program.access_buffer[:end] == buffer) & (program.access_kind[:end] == OPERAND)
        return found

    def _kept(self, encoding: Encoding) -> NDArray[np.bool_]:
        """Returns `[N]` the buffers that stay in HBM, including those that a kept read forces there."""
        kept = encoding.kept_buffers.copy()
        entailed = encoding.kept_reads[self._read] & ~kept[self.program.access_buffer[self._read]]
        kept[self.program.access_buffer[self._result[entailed]]] = True
        return kept


def _refused(program: Program) -> frozenset[str]:
    """Returns the options that the compiler of the capture does not accept.

    Raises:
      FormatError: the program's entry is not what `capture` writes.
    """
    names = program.compiler.get(REFUSED, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FormatError(f"program {program.name!r}: `compiler.{REFUSED}` is no list of options; capture it again")
    return frozenset(names)


def _overwrites(program: Program) -> list[NDArray[np.int64]]:
    """Returns, for each buffer, the accesses that write a value over another one; none but for inputs."""
    found: list[list[int]] = [[] for _ in range(program.num_buffers)]
    for access in np.flatnonzero(program.access_kind == RESULT).tolist():
        if program.definition[program.access_buffer[access]] < 0:
            found[program.access_buffer[access]].append(access)
    return [np.array(writes, np.int64) for writes in found]


def _loop_operands(program: Program, by_loops: NDArray[np.int64]) -> list[list[LoopOperand]]:
    """Returns, for each of the uses `by_loops[W, 2]`, what the loop's operand holds of its buffer."""
    facts = assignment_facts(program)
    found: dict[tuple[int, int], list[LoopOperand]] = {}
    for operand in [] if facts is None else facts.loop_operands:
        found.setdefault((operand.loop, operand.buffer), []).append(operand)
    return [found.get((loop, buffer), []) for loop, buffer in by_loops.tolist()]


def _read_again(program: Program) -> NDArray[np.int64]:
    """Returns the reads of buffers that the same instruction reads more than once."""
    reads = np.flatnonzero(program.access_kind == OPERAND)
    key = program.access_instruction[reads].astype(np.int64) * program.num_buffers + program.access_buffer[reads]
    _, which, times = np.unique(key, return_inverse=True, return_counts=True)
    return reads[times[which] > 1]


def _alike(program: Program) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns pairs of accesses that an option cannot tell apart: a read, and a result of the same instruction with the
    same shape index, whose buffers have the same size."""
    results: dict[tuple[int, int, str], list[int]] = {}
    size = program.size[program.access_buffer]
    keys = list(zip(program.access_instruction.tolist(), size.tolist(), program.access_path, strict=True))
    for access in np.flatnonzero(program.access_kind == RESULT).tolist():
        results.setdefault(keys[access], []).append(access)
    reads = np.flatnonzero(program.access_kind == OPERAND).tolist()
    pairs = [(read, result) for read in reads for result in results.get(keys[read], ())]
    found = np.array(pairs, np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
