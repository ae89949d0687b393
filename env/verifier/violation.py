"""Violations: the kinds, one violation with the instruction and buffer it concerns, and the report of all."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from ..program.program import Program

DIRECTION_NAMES = {PREFETCH: "prefetch", WRITE_BACK: "write-back", CROSS_PROGRAM: "cross-program prefetch"}


class Kind(StrEnum):
    """The rule that is broken."""

    SHAPE = "shape"  # an array of the mapping has the wrong shape or type
    PROGRAM = "program"  # the mapping belongs to another program
    INDEX = "index"  # a buffer, instruction, direction or byte range that does not exist
    TIME = "time"  # a residency or copy outside the program, or one that ends before it starts
    ALIGNMENT = "alignment"  # an offset that is not a multiple of the target's alignment
    CAPACITY = "capacity"  # bytes beyond the end of fast memory
    FAST_FORBIDDEN = "fast-forbidden"  # a residency of a buffer that must not live in fast memory
    HBM_OPERAND = "hbm-operand"  # an operand in fast memory that its instruction always reads from HBM
    HBM_RESULT = "hbm-result"  # a result in fast memory that its instruction always writes to HBM
    OVERLAP = "overlap"  # two residencies hold the same bytes of fast memory at the same time
    SCOPED = "scoped"  # a residency in bytes that an instruction reserves for itself
    RESIDENCY_LOOP = "residency-loop"  # a residency that enters or leaves a loop
    NO_RESIDENCY = "no-residency"  # a fast access to a buffer that is not wholly resident
    AMBIGUOUS = "ambiguous"  # an access or copy that could mean either of two offsets
    FAST_CONTENT = "fast-content"  # a read of fast memory that does not hold the value
    HBM_CONTENT = "hbm-content"  # a read of HBM that does not hold the value
    LOOP_CONTENT = "loop-content"  # a read that holds in the first iteration of a loop only
    IN_PLACE = "in-place"  # one instruction reads and writes a buffer in different memories
    HELD = "held"  # a buffer that moves, or is copied too early, while a running collective reads or writes it
    COPY_SOURCE = "copy-source"  # a copy of bytes that do not hold the value
    COPY_RESIDENCY = "copy-residency"  # a copy into or out of fast memory that is not the buffer's
    COPY_RACE = "copy-race"  # a buffer written while a copy of it is in flight
    COPY_LOOP = "copy-loop"  # a copy window that enters or leaves a loop
    CROSS_PROGRAM = "cross-program"  # a cross-program prefetch that the next execution cannot rely on
    REPLACES = "replaces"  # a copy without the effect of the instruction it replaces
    PREFETCH_LIMIT = "prefetch-limit"  # too many prefetches in flight
    WRITE_BACK_LIMIT = "write-back-limit"  # too many write-backs in flight
    OUTPUT = "output"  # a program output that does not end in HBM


@dataclass(frozen=True)
class Violation:
    """One broken rule.

    Attributes:
      kind: the rule.
      instruction, instruction_name: where in the program, or None where no instruction is concerned.
      buffer, buffer_name: the buffer, or None.
      message: one sentence with the numbers.
    """

    kind: Kind
    instruction: int | None
    instruction_name: str | None
    buffer: int | None
    buffer_name: str | None
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class VerificationError(UserError):
    """A mapping that does not verify. `violations` holds all violations, the message the first few."""

    def __init__(self, program: Program, violations: list[Violation], shown: int = 3) -> None:
        self.violations = violations
        count = f"{len(violations)} violation" + "s" * (len(violations) > 1)
        more = f" (and {len(violations) - shown} more)" if len(violations) > shown else ""
        texts = " ".join(str(violation) for violation in violations[:shown])
        super().__init__(f"the mapping of program {program.name!r} has {count}: {texts}{more}")


class Report:
    """Collects violations, and finds the words for instructions, buffers, residencies and copies."""

    def __init__(self, program: Program) -> None:
        self.violations: list[Violation] = []
        self._program = program

    def add(self, kind: Kind, message: str, instruction: int | None = None, buffer: int | None = None) -> None:
        """Adds a violation; an `instruction` outside the program (-1, `T`) counts as none."""
        if instruction is not None and not 0 <= instruction < self._program.num_instructions:
            instruction = None
        self.violations.append(
            Violation(
                kind,
                None if instruction is None else int(instruction),
                None if instruction is None else self._program.instruction_names[instruction],
                None if buffer is None else int(buffer),
                None if buffer is None else self._program.buffer_names[buffer],
                message[:1].upper() + message[1:],
            )
        )

    def instruction(self, t: int) -> str:
        """Returns the words for an instruction, or for the moment before or after the program."""
        if 0 <= t < self._program.num_instructions:
            return f"instruction {t} ({self._program.instruction_names[t]})"
        return "the start of the program" if t < 0 else "the end of the program"

    def buffer(self, n: int) -> str:
        """Returns the words for a buffer."""
        return f"buffer {n} ({self._program.buffer_names[n]})"

    def residency(self, row: NDArray[np.int64]) -> str:
        """Returns the words for a residency: a row of `Mapping.residencies`, then its number."""
        return f"residency {row[6]} of {self.buffer(row[0])} over instructions {row[1]}..{row[2]}"

    def copy(self, number: int, direction: int, buffer: int, start: int, end: int) -> str:
        """Returns the words for a copy."""
        return f"copy {number} (a {DIRECTION_NAMES[direction]} of {self.buffer(buffer)} from {start} to {end})"

    def copy_row(self, row: NDArray[np.int64]) -> str:
        """Returns the words for a copy: a row of `Mapping.copies`, then its number."""
        return self.copy(row[8], int(row[1]), row[0], row[2], row[3])
