"""From a function to compiler options in one go: capture, solve, translate, keep what the real compiler confirms."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..env.capture.capture import capture
from ..env.capture.compilation_files import work_folder
from ..env.capture.variants import PASSES
from ..env.errors import UserError
from ..env.physics.objective import Judge, make_judge
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program_file import read_module, write_program
from ..solvers.common.task import Budget
from ..solvers.solve import SOLVERS, Solvers, solve
from .compile import imposer
from .confirm import Confirmation, candidates_of, confirm
from .flag_grid import grid_candidates
from .source import Source, find_source
from .translate import translate

GUIDED = "guided"
# How the time is shared out: of all for capturing; of what is then left for solving, for translating.
_CAPTURE, _SOLVE, _TRANSLATE = 0.4, 0.4, 0.3
_CANDIDATES = 4


@dataclass(frozen=True, eq=False)
class Tuned:
    """What came of it.

    Attributes:
      confirmation: what the compiler said; its program is the function as captured.
      source: what it was compiled from.
      objective: what decided.
      wanted: the solver's mapping.
      versions: of jax and libtpu.
      decodes: sets of options that were tried with our own decoder.
      seconds: by the clock, by what was done.
    """

    confirmation: Confirmation
    source: Source
    objective: str
    wanted: ProgramMapping
    versions: dict[str, str]
    decodes: int
    seconds: dict[str, float] = field(default_factory=dict)


def tune(
    function: str,
    target: str,
    minutes: float,
    python: Path,
    *,
    solver: str = GUIDED,
    objective: str | None = None,
    seed: int = 0,
    program_output: Path | None = None,
    progress: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Tuned:
    """Captures a function, maps it, and looks for the compiler options that come nearest.

    Nothing is begun that would probably end after `minutes`: first fewer compilations for cycles and flags, then less
    search, then fewer candidates; what is left undone is said.

    Args:
      function: `PKG.MODULE:FUNCTION`; see `capture`.
      target: a key of `TOPOLOGIES`.
      minutes: time for all of it.
      python: interpreter with jax, libtpu and whatever the function needs.
      solver: a name in `SOLVERS`, or `guided`.
      objective: what decides; see `make_judge`.
      seed: of solver and translation.
      program_output: where the program file goes, with the cycles that all compilations showed.
      progress: takes one line at a time.
      clock: seconds that pass.

    Raises:
      UserError: something that the user gave does not work; the message says what.
      FormatError: the compiler's output is not what capture understands.
    """
    solvers = _solvers(solver)
    begin = clock()
    until = begin + 60.0 * minutes
    seconds: dict[str, float] = {}

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
            progress=progress,
        )
        if program.production is None:
            raise UserError(
                f"{function}: XLA's own mapping cannot be read back, so that there is nothing to compare with"
            )
        done("capture")
        judge = make_judge(program, objective)
        _say_judge(judge, progress)
        progress(f"mapping it with {solver}")
        solution = solve(
            program,
            solver,
            objective=objective,
            budget=Budget(max(0.0, _SOLVE * (until - clock()))),
            seed=seed,
            repack=True,
            solvers=solvers,
        )
        done("solve")
        promise = f"{solution.judged_s * 1e6:,.2f} us after {solution.evaluations:,} games"
        progress(f"{solver}: {promise}, {seconds['solve']:.0f} s")
        translations = translate(judge, solution.mapping, max(0.0, _TRANSLATE * (until - clock())), seed, clock)
        progress(f"{translations[0].decodes:,} sets of options decoded")
        done("translate")
        source = find_source(program, path)
        candidates = [*candidates_of(translations)[:_CANDIDATES], *grid_candidates(judge)]
        with imposer(source, python, time_limit_s=max(1.0, until - clock()), progress=progress) as compiler:
            confirmation = confirm(
                program,
                objective,
                candidates,
                compiler,
                just_captured=True,
                time_left_s=lambda: until - clock(),
                progress=progress,
            )
            versions = dict(source.versions)
        done("confirm")
        if program_output is not None:
            write_program(confirmation.program, program_output, read_module(path))
    return Tuned(confirmation, source, judge.objective, solution.mapping, versions, translations[0].decodes, seconds)


def _solvers(solver: str) -> Solvers:
    if solver == GUIDED:
        from ..launch.guided import guided_solver  # takes JAX

        return {**SOLVERS, GUIDED: guided_solver(None)}
    if solver not in SOLVERS:
        raise UserError(f"no solver is called {solver!r}; the solvers are {', '.join((GUIDED, *SOLVERS))}")
    return SOLVERS


def _say_judge(judge: Judge, progress: Callable[[str], None]) -> None:
    tuned = judge.tuned()
    assert judge.production_s is not None
    best = "" if tuned is None else f", best of the flag grid {judge.seconds(tuned) / judge.production_s:.2%} of that"
    progress(f"XLA's default: {judge.production_s * 1e6:,.2f} us ({judge.objective}){best}")
