"""Defines `Program`: scheduled instructions that read and write buffers, right before memory space assignment."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cycle_table import CycleTable
from .mapping import COPY_FIELDS, RESIDENCY_FIELDS, Mapping
from .target import Target
from .variant import Variant

OPERAND = 0
RESULT = 1

# Synchronous instructions that only move bytes. Others with one operand and one result compute: no copy does that.
REPLACEABLE_OPCODES = ("copy", "slice")


@dataclass(frozen=True, eq=False, repr=False)
class Program:
    """A scheduled program and the target it was compiled for.

    Shapes: `T` instructions, `A` accesses, `N` buffers, `L` loops. An access is one instruction reading (operand) or
    writing (result) one buffer. Values that the compiler makes share memory (in-place operations, loop-carried values)
    are one buffer with several results: see docs/decisions/0002-one-buffer-per-alias-group.md.

    Attributes:
      name: name of the workload.
      family: the model family it belongs to; splits never cut through a family.
      target: the hardware.
      instruction_names, opcodes: `[T]` strings.
      compute_s: `[T]` seconds of computation, whatever the placement (XLA: `compute-seconds`).
      bytes_total: `[T]` bytes moved in all (XLA: `total-bytes-accessed`).
      reserved: `[T]` bytes from offset 0 on that the instruction reserves while it runs (scoped memory).
      schedule_index: `[T]` position in the compiler's schedule, which also counts instructions without cost.
      loop: `[T]` innermost loop of the instruction, -1 outside loops.
      loop_parent, loop_trips, loop_first, loop_last: `[L]` enclosing loop or -1; trip count; first and
        last instruction.
      access_instruction: `[A]` the instruction, ascending.
      access_buffer: `[A]` the buffer that is read or written.
      access_kind: `[A]` `OPERAND` or `RESULT`; the operands of an instruction come before its results.
      access_number: `[A]` operand number; for results the position in the flattened result tuple.
      access_path: `[A]` shape index inside that operand or result, e.g. `{}` or `{1,0}`.
      access_bytes: `[A]` bytes this access moves (XLA: `operand-bytes-accessed`, `output-bytes-accessed`).
      buffer_names: `[N]` name of the instruction (and shape index) that defines the buffer's first value.
      size: `[N]` bytes, padded to the layout's tiles.
      definition: `[N]` instruction of the first result, or -1 for a program input.
      is_output: `[N]` the program returns it, so it must end in HBM.
      fast_allowed: `[N]` it may live in fast memory at all.
      production: XLA's own mapping, or None.
      compiler: the compiler's own figures of that mapping, e.g. its estimates in seconds.
      cycles: the code generator's cycle table, or None.
      keeps_layout: `[T]` the instruction is a `copy` or `slice` whose result has the layout of its operand (tiles of
        slices are not compared): XLA's condition for an asynchronous copy to replace it. None if that is not known;
        then any may be replaced.
      variants: compilations of the program under other options, the default first; empty if not tried.
      held_since: `[A]` for an operand with which a running collective lets its buffer go, the access with which the
        collective took hold of it: an operand that it reads or a result that it writes; -1 for all other accesses.
        None: no collective runs beside other instructions.
      hbm_accesses: `[A]` the instruction always has this operand or result in HBM, though its buffer may be in fast
        memory (XLA: `is_use_allowed_in_alternate_mem_fn`, `is_position_allowed_in_alternate_mem_fn`). This holds for
        most results on v5p, where two cores act as one, and for all that a SparseCore or a loop's copies of slices read
        and write. None if that is not known; then none is.
      conditional: `[L]` the loop is all branches of a conditional, and those directly inside it are its branches, of
        which one runs. Each begins with an instruction that does nothing, and all count as one pass. None: no
        conditional.
      split: `[N]` bytes of the larger part of a buffer that is split over the fast memories of two cores (v5p), which
        is what it takes there; 0 for a whole one. None: none is split.
      provenance: origin of the program: model, versions, flags.
    """

    name: str
    family: str
    target: Target
    instruction_names: tuple[str, ...]
    opcodes: tuple[str, ...]
    compute_s: NDArray[np.float64]
    bytes_total: NDArray[np.float64]
    reserved: NDArray[np.int64]
    schedule_index: NDArray[np.int32]
    loop: NDArray[np.int32]
    loop_parent: NDArray[np.int32]
    loop_trips: NDArray[np.int64]
    loop_first: NDArray[np.int32]
    loop_last: NDArray[np.int32]
    access_instruction: NDArray[np.int32]
    access_buffer: NDArray[np.int32]
    access_kind: NDArray[np.int8]
    access_number: NDArray[np.int32]
    access_path: tuple[str, ...]
    access_bytes: NDArray[np.float64]
    buffer_names: tuple[str, ...]
    size: NDArray[np.int64]
    definition: NDArray[np.int32]
    is_output: NDArray[np.bool_]
    fast_allowed: NDArray[np.bool_]
    production: Mapping | None = None
    compiler: dict[str, Any] = field(default_factory=dict)
    cycles: CycleTable | None = None
    keeps_layout: NDArray[np.bool_] | None = None
    variants: tuple[Variant, ...] = ()
    held_since: NDArray[np.int32] | None = None
    hbm_accesses: NDArray[np.bool_] | None = None
    conditional: NDArray[np.bool_] | None = None
    split: NDArray[np.int64] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Returns one line, without the arrays."""
        sizes = f"{self.num_instructions:,} instructions, {self.num_buffers:,} buffers, {self.num_accesses:,} accesses"
        return f"Program({self.name!r}, {self.target.name}: {sizes})"

    @property
    def num_instructions(self) -> int:
        """`T`."""
        return len(self.instruction_names)

    @property
    def num_accesses(self) -> int:
        """`A`."""
        return len(self.access_buffer)

    @property
    def num_buffers(self) -> int:
        """`N`."""
        return len(self.buffer_names)

    @cached_property
    def access_start(self) -> NDArray[np.int32]:
        """`[T + 1]` the accesses of instruction `t` are `access_start[t]:access_start[t + 1]`."""
        return np.searchsorted(self.access_instruction, np.arange(self.num_instructions + 1)).astype(np.int32)

    @cached_property
    def fast_size(self) -> NDArray[np.int64]:
        """`[N]` bytes that the buffer takes in fast memory: all, or the larger part of one that is split."""
        return self.size if self.split is None else np.where(self.is_split, self.split, self.size)

    @cached_property
    def is_split(self) -> NDArray[np.bool_]:
        """`[N]` the buffer is split over the fast memories of two cores."""
        return np.zeros(self.num_buffers, bool) if self.split is None else self.split > 0

    @cached_property
    def holds(self) -> NDArray[np.int64]:
        """`[H, 2]` the access with which a collective takes hold of a buffer, and the last with which it lets go."""
        if self.held_since is None:
            return np.zeros((0, 2), np.int64)
        last = {int(self.held_since[a]): int(a) for a in np.flatnonzero(self.held_since >= 0)}
        return np.array(sorted(last.items()), np.int64).reshape(-1, 2)

    @cached_property
    def access_allowed(self) -> NDArray[np.bool_]:
        """`[A]` the access may be served from fast memory, as far as its buffer and its instruction go.

        An instruction that writes a buffer has all its operands and results of it in one memory, so one that is always
        in HBM holds the others there too. If it only reads the buffer, the others may be read from fast memory.
        """
        allowed = self.fast_allowed[self.access_buffer]
        if self.hbm_accesses is None:
            return allowed
        touch = self.access_instruction.astype(np.int64) * self.num_buffers + self.access_buffer
        written = np.isin(touch, touch[self.access_kind == RESULT])
        return allowed & ~self.hbm_accesses & ~(written & np.isin(touch, touch[self.hbm_accesses]))

    @property
    def loop_kinds(self) -> list[str]:
        """What each loop stands for: `loop`, `conditional` (all its branches) or `branch`."""
        if self.conditional is None:
            return ["loop"] * len(self.loop_trips)
        inside = np.append(self.conditional, False)[self.loop_parent]
        return np.where(self.conditional, "conditional", np.where(inside, "branch", "loop")).tolist()

    @cached_property
    def loop_weight(self) -> NDArray[np.float64]:
        """`[L + 1]` number of runs of the loop's body: the product of the trip counts around it. Of loop -1, 1."""
        per_loop = np.ones(len(self.loop_trips) + 1)
        for index, (parent, trips) in enumerate(zip(self.loop_parent, self.loop_trips, strict=True)):
            per_loop[index] = per_loop[parent] * trips
        return per_loop

    @cached_property
    def weight(self) -> NDArray[np.float64]:
        """`[T]` number of runs of the instruction: those of the body of its innermost loop."""
        return self.loop_weight[self.loop]

    @cached_property
    def sha256(self) -> str:
        """Hash of the problem: without name, provenance, production mapping, cycle table, kept layouts and variants."""
        return hashlib.sha256(
            json.dumps(problem_dict(self), sort_keys=True, separators=(",", ":")).encode()
        ).hexdigest()


def all_hbm(program: Program) -> Mapping:
    """Returns the mapping that keeps everything in HBM: legal for every program."""
    return Mapping(
        program_sha256=program.sha256,
        access_fast=np.zeros(program.num_accesses, bool),
        residencies=np.zeros((0, len(RESIDENCY_FIELDS)), np.int64),
        copies=np.zeros((0, len(COPY_FIELDS)), np.int64),
        origin={"solver": "all-hbm"},
    )


def replaced_pair(program: Program, instruction: int) -> tuple[int, int] | None:
    """Returns source and result buffer of a synchronous copy that an asynchronous one may replace, or None.

    It is a `copy` or `slice` of one buffer to another that writes as many bytes as it reads, and keeps the layout where
    that is known. That its own result goes to HBM does not matter: the copy may write elsewhere.
    """
    if program.keeps_layout is not None and not program.keeps_layout[instruction]:
        return None
    first, last = int(program.access_start[instruction]), int(program.access_start[instruction + 1])
    if program.opcodes[instruction] not in REPLACEABLE_OPCODES or last - first != 2:
        return None
    source, result = (int(buffer) for buffer in program.access_buffer[first:last])
    kinds = program.access_kind[first:last].tolist()
    read, written = program.access_bytes[first:last].tolist()
    return (source, result) if kinds == [OPERAND, RESULT] and source != result and read == written else None


# Section of a program file -> field of the file -> attribute of `Program`.
PROBLEM_FIELDS: dict[str, dict[str, str]] = {
    "instructions": {
        "name": "instruction_names",
        "opcode": "opcodes",
        "compute_s": "compute_s",
        "bytes": "bytes_total",
        "reserved": "reserved",
        "schedule_index": "schedule_index",
        "loop": "loop",
    },
    "loops": {"parent": "loop_parent", "trips": "loop_trips", "first": "loop_first", "last": "loop_last"},
    "accesses": {
        "instruction": "access_instruction",
        "buffer": "access_buffer",
        "kind": "access_kind",
        "number": "access_number",
        "path": "access_path",
        "bytes": "access_bytes",
    },
    "buffers": {
        "name": "buffer_names",
        "size": "size",
        "definition": "definition",
        "output": "is_output",
        "fast_allowed": "fast_allowed",
    },
}


# The sections of a program file that name accesses which are always in HBM, and their kind.
HBM_SECTIONS = {"hbm_results": RESULT, "hbm_operands": OPERAND}


def problem_dict(program: Program) -> dict[str, Any]:
    """Returns the problem as plain JSON values: the sections of a program file that its hash covers."""
    sections: dict[str, Any] = {"target": vars(program.target)}
    for section, fields in PROBLEM_FIELDS.items():
        sections[section] = {key: _plain(getattr(program, name)) for key, name in fields.items()}
    if program.held_since is not None:
        held = np.flatnonzero(program.held_since >= 0)
        sections["held"] = {"access": held.tolist(), "since": program.held_since[held].tolist()}
    if program.hbm_accesses is not None:
        for section, kind in HBM_SECTIONS.items():
            accesses = np.flatnonzero(program.hbm_accesses & (program.access_kind == kind))
            if len(accesses):
                sections[section] = {"access": accesses.tolist()}
    if program.conditional is not None:
        sections["conditionals"] = {"loop": np.flatnonzero(program.conditional).tolist()}
    if program.split is not None:
        split = np.flatnonzero(program.split)
        sections["split"] = {"buffer": split.tolist(), "bytes": program.split[split].tolist()}
    return sections


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
