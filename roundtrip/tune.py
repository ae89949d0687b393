"""Makes compiler options for a JAX function: captures it, maps it, translates the mapping, has it confirmed."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..env.capture.capture import capture
from ..env.capture.compilation_files import work_folder
from ..env.capture.compiler import ASSIGNMENT, CODE
from ..env.capture.variants import PASSES
from ..env.errors import UserError
from ..env.physics.cost import MODELS
from ..env.physics.objective import Judge, check_objective, latencies, make_judge
from ..env.program.compiler_flags import flag_grid
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from ..env.program.program_file import read_module, write_program
from ..env.storage.destination import check_destination
from ..env.suggestion import unknown
from ..solvers.common.budget import Budget
from ..solvers.solve import DEFAULT_SOLVER, SOLVERS, Solvers, solve
from ..solvers.stand_in import why_missing, with_stand_in
from .candidates import grid_candidates, translated_candidates
from .confirm import Confirmation, confirm
from .real_compiler import real_compiler
from .source import Source, find_source
from .translate import translate

# Shares of the time: for capturing, of all; for the compiler's answers, at most, of what is left then; for solving, of
# what remains beside the answers. The rest is for translating.
_CAPTURE, _ANSWERS, _SOLVE = 0.4, 0.5, 0.65
_CANDIDATES = 4
# A compilation may take so many times as long as the longest of the capture.
_LONGER = 1.3


@dataclass(frozen=True, eq=False)
class Tuned:
    """The options that were confirmed, and what led to them.

    Attributes:
      confirmation: the compiler's answers; its program is the captured function.
      source: the source that it was compiled from.
      objective: the objective that decided.
      wanted: the solver's mapping.
      versions: of jax and libtpu.
      decodes: number of sets of options that our own decoder tried.
      seconds: wall time by step: `capture`, `solve`, `translate`, `confirm`; and of `confirm`, `candidates`, the
        compilations until memory is assigned, and `to_the_end`, those of what was best.
      missing: why the compiler's default mapping could not be read back; None if it was. The default of the
        confirmation is then the mapping of XLA's algorithm.
    """

    confirmation: Confirmation
    source: Source
    objective: str
    wanted: ProgramMapping
    versions: dict[str, str]
    decodes: int
    seconds: dict[str, float] = field(default_factory=dict)
    missing: str | None = None


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
    program_output: Path | None = None,
    module: bytes | None = None,
    progress: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Tuned:
    """Captures a function, maps it, and keeps the best compiler options that the real compiler confirms.

    No step is begun that would probably end after `minutes`. Time for the compiler's answers is kept: as long as the
    capture's compilations took, for every candidate until memory is assigned, and for the best one to the end. If time
    is short there are first fewer compilations for cycles and flags, or none, and the objective is `msa`; then less
    search; then no compilation to the end; then fewer candidates. A line of progress says what was left out.

    Args:
      function: `PKG.MODULE:FUNCTION`; see `capture`.
      target: a generation, or a topology of one; see `capture`.
      minutes: time for all steps together.
      python: interpreter with jax, libtpu and the packages that the function needs.
      solver: a name in `solvers`.
      solvers: the solvers by name.
      objective: the objective that decides; see `make_judge`.
      seed: of solver and translation.
      program_output: path for the program file, with the cycles that all compilations showed; None for no file.
      module: the function, lowered already; see `capture`.
      progress: takes one line at a time.
      clock: returns seconds.

    Raises:
      UserError: an argument cannot be used, or the function cannot be compiled; the message says how to mend it.
      FormatError: capture does not understand the compiler's output.
    """
    if not minutes > 0:
        raise UserError(f"--minutes {minutes:g}: there is no time; give more than 0")
    if solver not in solvers:
        raise UserError(unknown("solver", solver, solvers))
    if objective is not None:
        check_objective(objective)
    check_destination(program_output, "--program-output")
    begin = clock()
    until = begin + 60.0 * minutes
    seconds: dict[str, float] = {}
    longest_s: dict[str, float] = {}

    def done(what: str) -> None:
        seconds[what] = round(clock() - begin - sum(seconds.values()), 3)

    with work_folder(None) as folder:
        path = folder / "program.json.gz"
        program = capture(
            function,
            target,
            path,
            python=python,
            passes=PASSES,
            variants_s=_CAPTURE * (until - clock()),
            time_limit_s=max(1.0, until - clock()),
            module=module,
            longest_s=longest_s,
            # The file is temporary.
            progress=lambda line: progress(line.removeprefix(f"wrote {path}: ")),
        )
        missing = why_missing(program)
        if missing is not None:
            progress(
                f"{missing}. What is said of XLA's default below is said of the mapping of XLA's algorithm (solver "
                "xla), which may be another one; the compiler is asked about every set of options all the same"
            )
            program = with_stand_in(program)
        done("capture")
        judge = make_judge(program, objective)
        _say_judge(judge, progress, missing)
        kept = answers(longest_s, _CANDIDATES + (0 if program.variants else len(flag_grid()) - 1), until - clock())
        if program.cycles is not None and not kept.to_the_end_s:
            progress(
                "no time is kept to compile the best options to the end; their cycles may be of the program's table"
            )
        search_s = max(0.0, until - clock() - kept.all_s)
        progress(f"mapping it with {solver}")
        solution = solve(
            program,
            solver,
            objective=objective,
            budget=Budget(_SOLVE * search_s),
            seed=seed,
            repack=True,
            solvers=solvers,
        )
        done("solve")
        assert judge.production_s is not None
        ratio = solution.judged_s / judge.production_s
        name = "XLA's default" if missing is None else "XLA's algorithm"
        progress(
            f"{solver}: {_us(program, solution.mapping)}, {ratio:.2%} of {name} ({judge.objective}), after "
            f"{solution.evaluations:,} games, {seconds['solve']:.0f} s"
        )
        translations = translate(
            judge, solution.mapping, max(0.0, until - clock() - kept.all_s), seed=seed, clock=clock
        )
        progress(f"{translations[0].decodes:,} sets of options decoded")
        done("translate")
        source = find_source(program, path)
        if module is not None:
            source = replace(source, module=module)
        candidates = [*translated_candidates(translations)[:_CANDIDATES], *grid_candidates(judge)]
        with real_compiler(source, python, time_limit_s=max(1.0, until - clock()), progress=progress) as compiler:
            confirmation = confirm(
                program,
                objective,
                candidates,
                compiler,
                # The capture's compilation did not end in time either.
                quick=CODE not in longest_s,
                just_captured=True,
                time_left_s=lambda: until - clock(),
                reserve_s=kept.to_the_end_s,
                progress=progress,
            )
            versions = dict(source.versions)
        done("confirm")
        seconds["candidates"] = round(confirmation.candidates_s, 3)
        seconds["to_the_end"] = round(confirmation.to_the_end_s, 3)
        if program_output is not None:
            found = confirmation.program
            write_program(
                found if missing is None else replace(found, production=None), program_output, read_module(path)
            )
    return Tuned(
        confirmation=confirmation,
        source=source,
        objective=judge.objective,
        wanted=solution.mapping,
        versions=versions,
        decodes=translations[0].decodes,
        seconds=seconds,
        missing=missing,
    )


@dataclass(frozen=True)
class Answers:
    """Seconds kept for the compiler: for all candidates until memory is assigned, and for the best one to the end."""

    candidates_s: float
    to_the_end_s: float

    @property
    def all_s(self) -> float:
        """All that is kept."""
        return self.candidates_s + self.to_the_end_s


def answers(longest_s: dict[str, float], candidates: int, left_s: float) -> Answers:
    """Returns the seconds to keep of those that are left, by the longest compilations of the capture.

    A compilation to the end is the first that is given up: what was best is then judged by the program's table.
    """
    most_s = _ANSWERS * max(0.0, left_s)
    # A capture without variants may have gone to the end alone, which bounds the time until assignment.
    one_s = longest_s.get(ASSIGNMENT, longest_s.get(CODE, 0.0))
    candidates_s = min(most_s, _LONGER * candidates * one_s)
    to_the_end_s = _LONGER * longest_s.get(CODE, math.inf)
    return Answers(candidates_s, to_the_end_s if candidates_s + to_the_end_s <= most_s else 0.0)


def _say_judge(judge: Judge, progress: Callable[[str], None], missing: str | None) -> None:
    """Reports the latencies to beat: of XLA's default, or its stand-in, and of the best of the flag grid."""
    tuned = judge.tuned()
    assert judge.production_s is not None
    assert judge.program.production is not None
    best = (
        "" if tuned is None else f"; the best of the flag grid is {judge.seconds(tuned) / judge.production_s:.2%} of it"
    )
    name = "XLA's default" if missing is None else "XLA's algorithm"
    progress(f"{name}: {_us(judge.program, judge.program.production)}{best} ({judge.objective})")


def _us(program: Program, mapping: ProgramMapping) -> str:
    """Returns the latency of a mapping under the cost models that can price it."""
    found = latencies(program, mapping)
    return ", ".join(f"{s * 1e6:,.2f} us ({model})" for model in MODELS if (s := found[model]) is not None)
