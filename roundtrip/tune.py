"""Makes compiler options for a JAX function: captures it, maps it, translates the mapping, has options confirmed."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..env.capture.compilation_files import work_folder
from ..env.capture.compilations import Archive
from ..env.capture.variants import PASSES
from ..env.errors import UserError
from ..env.physics.cost import MSA
from ..env.physics.objective import ROBUST, Judge, check_objective, make_judge
from ..env.program.compiler_flags import flag_grid
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from ..env.program.program_file import read_module, write_program
from ..env.storage.destination import check_destination
from ..env.suggestion import unknown
from ..solvers.solve import DEFAULT_SOLVER, SOLVERS, Solvers
from ..solvers.stand_in import why_missing, with_stand_in
from .captured import captured
from .confirm import Confirmation
from .kept_time import CAPTURE_SHARE, Answers, answers, why_no_cycles
from .real_compiler import real_compiler
from .rounds import CANDIDATES, Rounds
from .scoped_memory import SIZES_SHARE, Sizes, check_scoped_memory, compiler_of, find_size
from .searcher import Search, Searcher, told_us
from .source import Source, find_source


@dataclass(frozen=True, eq=False)
class Tuned:
    """The options that were confirmed, and what led to them.

    Attributes:
      confirmation: the compiler's answers; its program is the captured function.
      source: the source that it was compiled from.
      objective: the objective that decided.
      told_only: whether cycles are shown only where compilations have reported them: `msa` decided, and there was time
        only for the cycles of XLA's own mapping.
      wanted: the solver's mapping.
      versions: of jax and libtpu.
      decodes: number of sets of options that our own decoder tried, in the last search.
      seconds: wall time by step: `sizes`, with `scoped_memory`, `capture`, `solve`, `translate`, `confirm`; and within
        `confirm`, `candidates` (compilations until memory is assigned) and `to_the_end` (compilations to the end). If
        there were two searches, `scout` is the time of the compilation between them.
      missing: why the compiler's default mapping could not be read back; None if it was. The default of the
        confirmation is then the mapping of XLA's algorithm.
      sizes: the sizes of scoped memory that were tried; None if there was no such search. The program of the
        confirmation is that of the best size.
    """

    confirmation: Confirmation
    source: Source
    objective: str
    told_only: bool
    wanted: ProgramMapping
    versions: dict[str, str]
    decodes: int
    seconds: dict[str, float] = field(default_factory=dict)
    missing: str | None = None
    sizes: Sizes | None = None


def tune(
    function: str,
    target: str,
    minutes: float,
    python: Path,
    *,
    solver: str = DEFAULT_SOLVER,
    solvers: Solvers = SOLVERS,
    objective: str | None = None,
    seed: int = 0,
    workers: int = 1,
    flags_only: bool = False,
    scoped_memory: bool = False,
    search: Search | None = None,
    program_output: Path | None = None,
    module: bytes | None = None,
    named: bool = True,
    base: Mapping[str, str] | None = None,
    progress: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Tuned:
    """Captures a function, maps it, and keeps the best compiler options that the real compiler confirms.

    No step is begun that would probably end after `minutes`. Time is kept for the compiler's answers, based on how long
    the capture's compilations took: for every candidate until memory is assigned, and for the best one to the end. If
    time is short, there are first fewer compilations for cycles and flags, or none beside the default; then less
    search; then fewer candidates. A line of progress reports what was left out. Unless the objective is `msa`, options
    are kept only if the compiler has reported their cycles. If time allows, `tune`
    searches twice, the second time with the cycles of the best options of the first, and compiles the other candidates
    to the end as well.

    Args:
      function: `PKG.MODULE:FUNCTION`; see `capture`.
      target: a generation, or a topology of one; see `capture`.
      minutes: time for all steps together.
      python: interpreter with jax, libtpu and the packages that the function needs.
      solver: a name in `solvers`.
      solvers: the solvers by name.
      objective: the objective that decides, one of `OBJECTIVES`; None for `robust`.
      seed: of solver and translation.
      workers: processes that translate.
      flags_only: make options of flags alone, which name nothing of the program; nothing is mapped, and `wanted` is the
        best mapping that our decoder foresees.
      scoped_memory: first look for the best size of scoped memory, for half of the time at most; the rest is done for
        the program of that size.
      search: maps the program in the solver's place; None for the solver, in this process.
      program_output: path for the program file, with the cycles that all compilations showed; None for no file.
      module, named: the function, lowered already; see `capture`. One without names takes flags alone.
      base: compiler options of every compilation, which are among those that are returned; None for none.
      progress: takes one line at a time.
      clock: returns seconds.

    Raises:
      UserError: an argument cannot be used, the function cannot be compiled, or there is no time to learn the cycles of
        any options although the objective is not `msa`; the message says what to do.
      FormatError: capture does not understand the compiler's output.
    """
    if not minutes > 0:
        raise UserError(f"--minutes {minutes:g}: there is no time; give more than 0")
    if solver not in solvers:
        raise UserError(unknown("solver", solver, solvers))
    objective = ROBUST if objective is None else objective
    check_objective(objective)
    check_scoped_memory(scoped_memory, objective, base or {})
    check_destination(program_output, "--program-output")
    begin = clock()
    until = begin + 60.0 * minutes
    seconds: dict[str, float] = {}
    longest_s: dict[str, float] = {}

    with ExitStack() as stack:
        settings: dict[str, Any] = {"python": python, "module": module, "named": named}
        options, sizes = dict(base or {}), None
        if scoped_memory:
            settings["archive"] = Archive(stack.enter_context(work_folder(None)), {})
            compile_with = compiler_of(function, target, options, **settings)
            sizes = find_size(compile_with, target, begin + SIZES_SHARE * (until - begin), progress, clock)
            seconds["sizes"] = clock() - begin
            options.update(sizes.options)
        capture_begin = clock()
        program, path = stack.enter_context(
            captured(
                function,
                target,
                progress,
                passes=PASSES,
                variants_s=CAPTURE_SHARE * (until - capture_begin),
                time_limit_s=max(1.0, until - capture_begin),
                options=options,
                longest_s=longest_s,
                **settings,
            )
        )
        missing = why_missing(program)
        if missing is not None:
            progress(
                f"{missing}. What is said of XLA's default below is said of the mapping of XLA's algorithm (solver "
                "xla), which may be another one; the compiler is asked about every set of options all the same"
            )
            program = with_stand_in(program)
        seconds["capture"] = clock() - capture_begin
        kept = _kept(program, longest_s, objective, until - clock())
        short = None if objective == MSA else why_no_cycles(program, longest_s, kept, minutes, begin, until, clock())
        if short is not None:
            if program_output is not None:
                _write(program_output, program, path, missing)
                short += f"; wrote {program_output}"
            raise UserError(short)
        thin = program.cycles is not None and not program.variants
        if thin and objective != MSA:
            progress(
                "there was time for the cycles of XLA's own mapping alone: those of other placements are estimates, "
                "and the best options are compiled to the end"
            )
        default = "XLA's default" if missing is None else "XLA's algorithm"
        if sizes is not None and sizes.options:
            default = "XLA with the best scoped memory"
        _say_judge(make_judge(program, objective), progress, default)
        searcher = Searcher(
            objective=objective,
            solver=solver,
            solvers=solvers,
            search=search,
            workers=workers,
            flags_only=flags_only,
            default=default,
            progress=progress,
            clock=clock,
        )
        source = find_source(program, path)
        if module is not None:
            source = replace(source, module=module)
        with real_compiler(source, python, time_limit_s=max(1.0, until - clock()), progress=progress) as compiler:
            rounds = Rounds(searcher, compiler, longest_s, kept, until, progress, clock, seconds)
            program, earlier = rounds.scout(program, seed + 1)
            found, confirmation = rounds.decide(program, seed, earlier)
        if program_output is not None:
            _write(program_output, confirmation.program, path, missing)
    return Tuned(
        confirmation=confirmation,
        source=source,
        objective=objective,
        told_only=thin and objective == MSA,
        wanted=found.wanted,
        versions=dict(source.versions),
        decodes=found.translations[0].decodes,
        seconds={step: round(spent_s, 3) for step, spent_s in seconds.items()},
        missing=missing,
        sizes=sizes,
    )


def _kept(program: Program, longest_s: dict[str, float], objective: str, left_s: float) -> Answers:
    """Returns the time to keep for the compiler's answers; without variants, the flag grid asks it too."""
    candidates = CANDIDATES + (0 if program.variants else len(flag_grid()) - 1)
    return answers(longest_s, candidates, left_s, with_cycles=objective != MSA)


def _write(output: Path, program: Program, made: Path, missing: str | None) -> None:
    """Writes the program file, with the module of the captured file, but without a stand-in, and without a cycle table
    of one compilation, which would look like a full one."""
    if missing is not None:
        program = replace(program, production=None)
    if program.cycles is not None and program.cycles.compilations < 2:
        program = replace(program, cycles=None)
    write_program(program, output, read_module(made))


def _say_judge(judge: Judge, progress: Callable[[str], None], default: str) -> None:
    """Reports the latencies to beat: of XLA's default, or its stand-in, and of the best of the flag grid."""
    tuned = judge.tuned()
    assert judge.production_s is not None
    assert judge.program.production is not None
    best = (
        "" if tuned is None else f"; the best of the flag grid is {judge.seconds(tuned) / judge.production_s:.2%} of it"
    )
    progress(f"{default}: {told_us(judge.program, judge.program.production)}{best} ({judge.objective})")
