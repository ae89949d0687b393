"""Asks the real compiler: compiles a program again with options, and reads back the mapping that it chose."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..env.capture.assemble import Assembly
from ..env.capture.compilation_files import cut_down, work_folder
from ..env.capture.compiler import ASSIGNMENT, CODE, TIME_LIMIT_S, Compiler
from ..env.capture.same_problem import same_problem
from ..env.capture.worker import MODULE_FILE
from ..env.errors import FormatError, UserError
from ..env.program.cycle_table import CycleTable, build_table
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from .options import TRIPS, check_taken
from .source import Source


@dataclass(frozen=True, eq=False)
class Compiled:
    """One compilation with options, read back.

    Attributes:
      program: the given program; its cycle table also has the pairs that this compilation reported.
      mapping: the mapping that the compiler chose.
      printed_s: the compiler's own estimate of the mapping, in seconds, which is no judge
        (docs/physics-of-extraction.md). None if the capture made the compilation.
      new_pairs: number of pairs of instruction and placement that the table did not have.
      versions: of jax and libtpu.
      cpu_s: seconds of processor time.
      inexpressible: how many parts of the compiler's mapping could not be read back, by reason.
    """

    program: Program
    mapping: ProgramMapping
    printed_s: float | None
    new_pairs: int
    versions: dict[str, str]
    cpu_s: float
    inexpressible: dict[str, int]


class RealCompiler:
    """Compiles one program under one set of options after another; made by `real_compiler`.

    Attributes:
      source: the program's source.
    """

    def __init__(
        self, source: Source, compiler: Compiler, folder: Path, keep: bool, progress: Callable[[str], None]
    ) -> None:
        self.source, self._compiler, self._folder, self._keep = source, compiler, folder, keep
        self._progress = progress
        self._compilations, self._time_limit_s = 0, compiler.time_limit_s

    def compile(
        self,
        program: Program,
        options: Mapping[str, str],
        *,
        quick: bool = False,
        time_limit_s: float | None = None,
    ) -> Compiled:
        """Compiles with options and reads back the mapping.

        Args:
          program: the program, with the cycle table to add to.
          options: compiler options, beside those of the capture.
          quick: end the compilation once memory is assigned; it then reports no cycles.
          time_limit_s: seconds after which the compilation is given up; None for the compiler's own limit.

        Raises:
          UserError: the program cannot be compiled, an option was refused or dropped, or the source compiles to
            another program than the captured one.
          FormatError: capture does not understand the compiler's output.
        """
        made = self._folder / f"imposed-{self._compilations}"
        self._compilations += 1
        self._compiler.time_limit_s = self._time_limit_s if time_limit_s is None else time_limit_s
        try:
            made.mkdir()
        except OSError as error:
            raise UserError(f"{made}: cannot be made ({error.strerror or error}); free some space") from error
        try:
            return self._compile(program, {**self.source.options, **options}, quick, made)
        except FormatError as error:
            raise FormatError(f"{error} ({self._told_versions()})") from error
        except OSError as error:
            raise UserError(
                f"{made}: cannot be used ({error.strerror or error}); free some space, or set TMPDIR"
            ) from error
        finally:
            if not self._keep:
                shutil.rmtree(made, ignore_errors=True)

    def _compile(self, program: Program, options: Mapping[str, str], quick: bool, made: Path) -> Compiled:
        try:
            cpu_s = self._compiler.compile(made, options, ASSIGNMENT if quick else CODE, dump=True)
        except UserError as error:
            if not str(error).startswith("no module"):
                raise
            raise UserError(f"{error}, or --folder with the folder that the program was captured in") from error
        check_taken(made, options)
        cut_down(made, dumps=True, costs=True)
        assembly = Assembly(made, program.target, program.name, program.family, like=program, pack_overlaps=True)
        compiled = assembly.program()
        # The option changes the trips of loops of unknown length, in this compilation alone.
        if TRIPS in options and compiled.loop_trips.shape == program.loop_trips.shape:
            compiled = replace(compiled, loop_trips=program.loop_trips)
        if not same_problem(program, compiled):
            raise UserError(
                f"{self.source.function}: compiles to another program than {program.name!r} (other code, other "
                "versions of jax or libtpu, or another schedule); capture it again, then map that"
            )
        inexpressible = dict(compiled.compiler["inexpressible"])
        if compiled.production is None:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in inexpressible.items())
            raise UserError(f"{self.source.function}: what the compiler chose cannot be read back: {reasons}")
        cycles, new_pairs = (
            (program.cycles, 0) if program.cycles is None else merge_tables(program.cycles, assembly.pairs.table())
        )
        return Compiled(
            program=replace(program, cycles=cycles),
            mapping=replace(
                compiled.production,
                program_sha256=program.sha256,
                origin={"solver": "xla", "options": dict(options)},
            ),
            printed_s=float(compiled.compiler["estimate_with_copies_s"]),
            new_pairs=new_pairs,
            versions=self.versions(),
            cpu_s=cpu_s,
            inexpressible=inexpressible,
        )

    def _told_versions(self) -> str:
        """Returns the versions that compiled and those that captured: a difference explains unknown output."""
        try:
            found = self._compiler.versions()
        except FormatError:
            found = {}
        ours, theirs = (
            " and ".join(f"{name} {version}" for name, version in versions.items()) or "versions that are not known"
            for versions in (found, self.source.versions)
        )
        return f"compiled with {ours}; the program was captured with {theirs}"

    def versions(self) -> dict[str, str]:
        """Returns the versions of jax and libtpu that compiled.

        After the first compilation it reports, as progress, versions that differ from those of the capture.
        """
        versions = self._compiler.versions()
        if self._compilations == 1:
            for name, version in self.source.versions.items():
                if versions[name] != version:
                    self._progress(f"{name} is {versions[name]}; the program was captured with {version}")
        return versions


@contextmanager
def real_compiler(
    source: Source,
    python: Path,
    *,
    keep: Path | None = None,
    time_limit_s: float = TIME_LIMIT_S,
    progress: Callable[[str], None] = print,
) -> Iterator[RealCompiler]:
    """Yields a compiler of one program; its process lives as long as the context.

    Args:
      source: see `find_source`.
      python: interpreter with jax, libtpu and, if the source has no module, the packages that the function needs.
      keep: folder that keeps dumps and logs; None for a temporary folder.
      time_limit_s: seconds after which one compilation is given up.
      progress: takes one line at a time.

    Raises:
      UserError: `keep` cannot be used, or the disk is full.
    """
    with work_folder(keep) as folder:
        function = source.function
        if source.module is not None:
            stored = folder / MODULE_FILE
            try:
                stored.write_bytes(source.module)
            except OSError as error:
                raise UserError(f"{stored}: cannot be written ({error.strerror or error}); free some space") from error
            function = str(stored)
        with Compiler(
            python,
            function,
            source.topology,
            folder,
            working_folder=source.folder,
            time_limit_s=time_limit_s,
            name=source.function,
        ) as compiler:
            yield RealCompiler(source, compiler, folder, keep is not None, progress)


def merge_tables(known: CycleTable, seen: CycleTable) -> tuple[CycleTable, int]:
    """Adds to a cycle table the pairs that another compilation of the same program reported.

    Rows of the two tables are the same if they share an instruction. Of two values for a pair, the smaller is kept.

    Returns:
      The table, and the number of new pairs.
    """
    rows: dict[int, set[int]] = {}
    for ours, theirs in zip(known.row.tolist(), seen.row.tolist(), strict=True):
        if ours >= 0 and theirs >= 0:
            rows.setdefault(theirs, set()).add(ours)
    columns = known.pair_row.tolist(), known.pair_fast, known.pair_cycles.tolist()
    pairs = {(row, fast): cycles for row, fast, cycles in zip(*columns, strict=True)}
    before, ambiguous = len(pairs), known.ambiguous
    for theirs, fast, cycles in zip(seen.pair_row.tolist(), seen.pair_fast, seen.pair_cycles.tolist(), strict=True):
        for row in rows.get(theirs, ()):
            other = pairs.get((row, fast), cycles)
            ambiguous += other != cycles
            pairs[row, fast] = min(other, cycles)
    compilations = known.compilations + (seen.num_pairs > 0)
    table = build_table(known.row, pairs, compilations, ambiguous, known.completion, known.kernel_rows)
    return table, len(pairs) - before
