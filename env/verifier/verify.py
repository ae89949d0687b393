"""Verifies mappings: the front door of the verifier, which shares no code with the game, the simulator or a solver.

Each rule of docs/formats.md is checked in one file, and `violation.py` lists the kinds of violations:

- `well_formed.py`: shapes and types of the arrays; buffers, byte ranges and times that exist.
- `places.py`: alignment, capacity, overlaps in fast memory, reserved bytes, buffers and accesses that stay in HBM.
- `windows.py`: copies in flight at once, borders of loops and branches, cross-program prefetches.
- `dataflow.py`: every access, copy and program output finds the current value of its buffer, which
  `buffer_walk.py` follows through HBM and fast memory.
- `holds.py`: buffers lie still while a running collective reads or writes them.
- `replacements.py`: a copy that replaces an instruction has the same effect.
"""

from collections.abc import Callable

from ..program.extents import extents
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from .dataflow import check_dataflow
from .holds import check_memories
from .places import check_entries, check_hbm_accesses, check_overlaps, check_places, check_scoped
from .violation import Kind, Report, VerificationError, Violation
from .well_formed import check_shapes, sound_copies, sound_residencies
from .windows import check_copy_limits, check_cross_program, check_loop_borders


def _nothing() -> None:
    """Does not end the work."""


def verify(program: Program, target: Target, mapping: Mapping, check: Callable[[], None] = _nothing) -> list[Violation]:
    """Returns every violation of a mapping, in program order; none means that the mapping is legal.

    A residency or copy with numbers that do not exist (kinds `index` and `time`) is reported and then left out. After
    a violated read the value counts as present: one mistake gives few violations, and never none.

    Args:
      program: the program.
      target: the hardware to fit; usually `program.target`.
      mapping: the mapping.
      check: called again and again meanwhile; what it raises ends the work. For limits of time.
    """
    report = Report(program)
    if mapping.program_sha256 != program.sha256:
        report.add(
            Kind.PROGRAM,
            f"The mapping is for the program {mapping.program_sha256:.12}..., not for {program.sha256:.12}....",
        )
    elif check_shapes(program, mapping, report):
        residencies = sound_residencies(program, mapping.residencies, report)
        copies = sound_copies(program, mapping.copies, report)
        check()
        taken = extents(program, residencies)
        check_places(program, target, taken, report)
        check_hbm_accesses(program, mapping.access_fast, report)
        check_overlaps(taken, report)
        check()
        check_entries(program, taken, copies, report)
        check_scoped(program, taken, report)
        check_copy_limits(program, target, copies, report)
        check_loop_borders(program, residencies, copies, report)
        check_cross_program(program, copies, report)
        check_memories(program, mapping.access_fast, report)
        check_dataflow(program, mapping.access_fast, residencies, copies, report, check)
    return sorted(report.violations, key=lambda v: -1 if v.instruction is None else v.instruction)


def check(program: Program, target: Target, mapping: Mapping) -> None:
    """Passes a legal mapping.

    Raises:
      VerificationError: the mapping has violations; the message gives the first few.
    """
    violations = verify(program, target, mapping)
    if violations:
        raise VerificationError(program, violations)
