"""Makes compiler options for a JAX function: captures it, maps it, translates the mapping, has it confirmed."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..env.capture.compiler import ASSIGNMENT, CODE
from ..env.capture.variants import PASSES
from ..env.errors import UserError
from ..env.physics.cost import MODELS, MSA
from ..env.physics.objective import ROBUST, Judge, check_objective, latencies, make_judge
from ..env.program.compiler_flags import flag_grid
from ..env.program.mapping import Mapping as ProgramMapping
from ..env.program.program import Program
from ..env.program.program_file import read_module, write_program
from ..env.storage.destination import check_destination
from ..env.suggestion import unknown
from ..solvers.common.budget import Budget
from ..solvers.solve import DEFAULT_SOLVER, SOLVERS, Solution, Solvers, solve
from ..solvers.stand_in import why_missing, with_stand_in
from .candidates import grid_candidates, translated_candidates
from .captured import captured
from .confirm import Confirmation, confirm
from .real_compiler import real_compiler
from .source import Source, find_source
from .translate import translate
from .translate_workers import translate_with_workers

# Shares of the time: for capturing, of all; for the compiler's answers, at most, of what is left then; for solving, of
# what remains beside the answers. The rest is for translating, which gains from more time where solving hardly does.
_CAPTURE, _ANSWERS, _SOLVE = 0.4, 0.5, 0.35
# ... and for the compiler's answers at most, if the best options would otherwise not be compiled to the end.
_ANSWERS_WITH_CYCLES = 0.9
_CANDIDATES = 4
# A compilation may take so many times as long as the longest of the capture.
_LONGER = 1.3
# Until memory is assigned a compilation takes at most about this share of the time to the end; often it is a tenth.
_ASSIGNMENT_SHARE = 0.25


# Maps a program under an objective within a budget.
Search = Callable[[Program, str, Budget], Solution]


@dataclass(frozen=True, eq=False)
class Tuned:
    """The options that were confirmed, and what led to them.

    Attributes:
      confirmation: the compiler's answers; its program is the captured function.
      source: the source that it was compiled from.
      objective: the objective that decided.
      search_objective: the objective that solver and translation worked by: `msa` where there was time for the cycles
        of XLA's own mapping alone, which price no other.
      thin: the cycle table has XLA's own mapping and what was compiled to the end, so that it prices nothing else.
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
    search_objective: str
    thin: bool
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
    workers: int = 1,
    flags_only: bool = False,
    search: Search | None = None,
    program_output: Path | None = None,
    module: bytes | None = None,
    progress: Callable[[str], None] = print,
    clock: Callable[[], float] = time.monotonic,
) -> Tuned:
    """Captures a function, maps it, and keeps the best compiler options that the real compiler confirms.

    No step is begun that would probably end after `minutes`. Time for the compiler's answers is kept: as long as the
    capture's compilations took, for every candidate until memory is assigned, and for the best one to the end. If time
    is short there are first fewer compilations for cycles and flags, or none beside the default, and the search goes by
    `msa`; then less search; then fewer candidates. A line of progress says what was left out. Unless the objective is
    `msa`, options are kept only if the compiler has told their cycles.

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
      flags_only: make options of flags alone, which name nothing of the program; nothing is mapped, and the mapping
        that is wanted is the best that our decoder foresees.
      search: maps the program; None for the solver, in this process.
      program_output: path for the program file, with the cycles that all compilations showed; None for no file.
      module: the function, lowered already; see `capture`.
      progress: takes one line at a time.
      clock: returns seconds.

    Raises:
      UserError: an argument cannot be used, the function cannot be compiled, or there is no time to learn the cycles of
        any options although the objective is not `msa`; the message says how to mend it.
      FormatError: capture does not understand the compiler's output.
    """
    if not minutes > 0:
        raise UserError(f"--minutes {minutes:g}: there is no time; give more than 0")
    if solver not in solvers:
        raise UserError(unknown("solver", solver, solvers))
    objective = ROBUST if objective is None else objective
    check_objective(objective)
    check_destination(program_output, "--program-output")
    begin = clock()
    until = begin + 60.0 * minutes
    seconds: dict[str, float] = {}
    longest_s: dict[str, float] = {}

    def done(what: str) -> None:
        seconds[what] = round(clock() - begin - sum(seconds.values()), 3)

    with captured(
        function,
        target,
        progress,
        python=python,
        passes=PASSES,
        variants_s=_CAPTURE * (until - clock()),
        time_limit_s=max(1.0, until - clock()),
        module=module,
        longest_s=longest_s,
    ) as (program, path):
        missing = why_missing(program)
        if missing is not None:
            progress(
                f"{missing}. What is said of XLA's default below is said of the mapping of XLA's algorithm (solver "
                "xla), which may be another one; the compiler is asked about every set of options all the same"
            )
            program = with_stand_in(program)
        done("capture")
        # One compilation tells the cycles of its own placement alone.
        thin = program.cycles is not None and not program.variants
        candidates_asked = _CANDIDATES + (0 if program.variants else len(flag_grid()) - 1)
        kept = answers(longest_s, candidates_asked, until - clock(), with_cycles=objective != MSA)
        short = None if objective == MSA else _why_no_cycles(program, longest_s, kept, minutes, begin, until, clock())
        if short is not None:
            if program_output is not None:
                _write(program_output, program, path, missing, thin)
                short += f"; wrote {program_output}"
            raise UserError(short)
        search_objective = MSA if thin else objective
        if search_objective != objective:
            progress(
                "there was time for the cycles of XLA's own mapping alone: the search goes by msa, and the best "
                "options are compiled to the end for their cycles"
            )
        judge = make_judge(program, search_objective)
        _say_judge(judge, progress, missing)
        search_s = max(0.0, until - clock() - kept.all_s)
        if flags_only:
            assert program.production is not None
            translations = translate(judge, program.production, search_s, seed=seed, clock=clock, flags_only=True)
            wanted = translations[0].mapping
        else:
            progress(f"mapping it with {solver}")
            budget = Budget(_SOLVE * search_s)
            if search is not None:
                solution = search(program, search_objective, budget)
            else:
                solution = solve(
                    program, solver, objective=search_objective, budget=budget, seed=seed, repack=True, solvers=solvers
                )
            done("solve")
            assert judge.production_s is not None
            wanted, ratio = solution.mapping, solution.judged_s / judge.production_s
            name = "XLA's default" if missing is None else "XLA's algorithm"
            progress(
                f"{solver}: {_us(program, wanted)}, {ratio:.2%} of {name} ({judge.objective}), after "
                f"{solution.evaluations:,} games, {seconds['solve']:.0f} s"
            )
            translate_s = max(0.0, until - clock() - kept.all_s)
            translations = translate_with_workers(judge, wanted, translate_s, seed=seed, workers=workers, clock=clock)
        progress(f"{translations[0].decodes:,} sets of options decoded")
        done("translate")
        source = find_source(program, path)
        if module is not None:
            source = replace(source, module=module)
        candidates = [*translated_candidates(translations, _CANDIDATES), *grid_candidates(judge)]
        with real_compiler(source, python, time_limit_s=max(1.0, until - clock()), progress=progress) as compiler:
            confirmation = confirm(
                program,
                objective,
                candidates,
                compiler,
                ranking=search_objective,
                # The capture's compilation did not end in time either.
                quick=CODE not in longest_s,
                just_captured=True,
                time_left_s=lambda: until - clock(),
                reserve_s=kept.to_the_end_s,
                candidate_s=_LONGER * _until_assignment_s(longest_s),
                progress=progress,
            )
            versions = dict(source.versions)
        done("confirm")
        seconds["candidates"] = round(confirmation.candidates_s, 3)
        seconds["to_the_end"] = round(confirmation.to_the_end_s, 3)
        if program_output is not None:
            _write(program_output, confirmation.program, path, missing, thin)
    return Tuned(
        confirmation=confirmation,
        source=source,
        objective=objective,
        search_objective=search_objective,
        thin=thin,
        wanted=wanted,
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


def answers(longest_s: dict[str, float], candidates: int, left_s: float, with_cycles: bool = False) -> Answers:
    """Returns the seconds to keep of those that are left, by the longest compilations of the capture.

    A compilation to the end is the first that is given up: what was best is then judged by the program's table. With
    `with_cycles` it is the last, and candidates go first, but for one.
    """
    most_s = _ANSWERS * max(0.0, left_s)
    one_s = _LONGER * _until_assignment_s(longest_s)
    to_the_end_s = _LONGER * longest_s.get(CODE, math.inf)
    if with_cycles and to_the_end_s + one_s <= _ANSWERS_WITH_CYCLES * max(0.0, left_s):
        return Answers(min(max(most_s - to_the_end_s, one_s), candidates * one_s), to_the_end_s)
    candidates_s = min(most_s, candidates * one_s)
    return Answers(candidates_s, to_the_end_s if candidates_s + to_the_end_s <= most_s else 0.0)


def _until_assignment_s(longest_s: dict[str, float]) -> float:
    """Returns the seconds of a compilation until memory is assigned, guessed if the capture made none."""
    return longest_s.get(ASSIGNMENT, _ASSIGNMENT_SHARE * longest_s.get(CODE, 0.0))


def _why_no_cycles(
    program: Program,
    longest_s: dict[str, float],
    kept: Answers,
    minutes: float,
    begin: float,
    until: float,
    now: float,
) -> str | None:
    """Returns why the compiler cannot tell the cycles of any options in time, and what to do; None if it can."""
    instead = "or --objective msa, which lets the cost model msa decide alone"
    if program.cycles is None and CODE in longest_s:
        return f"the code generator tells no cycles of this function: give {instead.removeprefix('or ')}"
    if program.cycles is None:
        return (
            f"the code generator did not end within {_CAPTURE * (until - begin):.0f} s, so that no gain could be "
            f"confirmed under cycles: give --minutes {math.ceil(2 * minutes)} or more, {instead}"
        )
    if kept.to_the_end_s:
        return None
    longest = longest_s[CODE]
    needed_s = now - begin + _LONGER * (longest + _until_assignment_s(longest_s)) / _ANSWERS_WITH_CYCLES
    more = max(math.floor(minutes) + 1, math.ceil(1.1 * needed_s / 60.0))
    return (
        f"a compilation to the end takes {longest:.0f} s and {until - now:.0f} s are left, so that no gain could be "
        f"confirmed under cycles: give --minutes {more} or more, {instead}"
    )


def _write(output: Path, program: Program, made: Path, missing: str | None, thin: bool) -> None:
    """Writes the program file, with the module of the file that the capture made, and without what is no part of it."""
    if missing is not None:
        program = replace(program, production=None)
    if thin:
        program = replace(program, cycles=None)
    write_program(program, output, read_module(made))


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
