"""One round trip: a program's mapping, its translation, and what the real compiler makes of it."""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.run.guided import learned_solvers
from mallocmuzero.launch.terminal.confirmation_report import report
from mallocmuzero.roundtrip.candidates import translated_candidates
from mallocmuzero.roundtrip.comparison import flags_us
from mallocmuzero.roundtrip.confirm import Attempt, confirm, scout
from mallocmuzero.roundtrip.encoding import Codec
from mallocmuzero.roundtrip.kept_time import FIRST_SEARCH
from mallocmuzero.roundtrip.real_compiler import real_compiler
from mallocmuzero.roundtrip.source import find_source
from mallocmuzero.roundtrip.translate import Translation, translate
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.solve import SOLVERS, Solvers, solve
from mallocmuzero.version import VERSION

from ..common.json_lines import Record

# In place of a solver: nothing is mapped, and options are flags alone.
FLAGS_ONLY = "flags-only"


class Effort(NamedTuple):
    """What a round trip may take.

    Attributes:
      solver: the solver of the mapping, or `FLAGS_ONLY`.
      solve_s, translate_s: seconds of processor time.
      candidates: sets of options that the compiler is asked about.
      compile_minutes: minutes of the clock for all its answers.
    """

    solver: str
    solve_s: float
    translate_s: float
    candidates: int
    compile_minutes: float


def solvers() -> Solvers:
    """Returns all solvers by name, those with the shipped policy too."""
    return {**SOLVERS, **learned_solvers()}


def add_arguments(parser: argparse.ArgumentParser, *, solve_s: float, translate_s: float) -> None:
    """Adds what a round trip may take, with the defaults of its seconds, and the minutes of the command."""
    parser.add_argument("--solver", default="guided", choices=[*solvers(), FLAGS_ONLY], metavar="NAME")
    parser.add_argument("--solve-seconds", type=float, default=solve_s, metavar="S")
    parser.add_argument("--translate-seconds", type=float, default=translate_s, metavar="S")
    parser.add_argument("--candidates", type=int, default=4, metavar="N")
    parser.add_argument("--compile-minutes", type=float, default=15.0, metavar="M", help="for all compilations of one")
    parser.add_argument(
        "--minutes",
        dest="budget_minutes",
        type=float,
        default=float("inf"),
        metavar="M",
        help="begin no run after so many",
    )


def effort_of(given: argparse.Namespace) -> Effort:
    """Returns the effort that a command line asks for."""
    return Effort(given.solver, given.solve_seconds, given.translate_seconds, given.candidates, given.compile_minutes)


def outcome_of(_: object, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return f"{record['kept'] or 'the default stays'}: {record['verdict']} ({record['wall_s']:.0f} s)"


def round_trip(program: Program, path: Path, python: Path, effort: Effort) -> Record:
    """Maps a program, translates the mapping, and has the compiler confirm it.

    Args:
      program: the program.
      path: its file.
      python: an interpreter with jax and libtpu, of the versions that the program was captured with.
      effort: what it may take.

    Returns:
      The report of `impose`, with what it was made of.
    """
    begin = time.perf_counter()
    flags_only = effort.solver == FLAGS_ONLY
    quick = flags_only and program.cycles is None
    source = find_source(program, path)
    compile_s = 60.0 * effort.compile_minutes
    with real_compiler(source, python, time_limit_s=compile_s, progress=say) as compiler:
        earlier: list[Attempt] = []
        told = program
        if program.cycles is not None:
            _, translations = _search(program, effort, FIRST_SEARCH, seed=1)  # in so many seconds more
            scouted_at = time.monotonic()
            told, earlier = scout(program, translated_candidates(translations, 1), compiler, progress=say)
            compile_s -= time.monotonic() - scouted_at
        wanted, translations = _search(told, effort, 1.0, seed=0)
        until = time.monotonic() + compile_s
        confirmation = confirm(
            told,
            None,
            translated_candidates(translations, effort.candidates),
            compiler,
            quick=quick,
            time_left_s=lambda: until - time.monotonic(),
            all_to_the_end=True,
            earlier=earlier,
            progress=say,
        )
        versions = compiler.versions()
    found = report(confirmation, wanted)
    for tried in found["candidates"]:
        tried["option_bytes"] = sum(len(text) for text in tried.pop("options").values())
    if flags_only:
        found["options"] = confirmation.options
    return {
        **found,
        "program_sha256": program.sha256[:12],
        "target": program.target.name,
        "objective": make_judge(program).objective,
        "flags_us": flags_us(program),
        "solver": effort.solver,
        "solve_s": effort.solve_s,
        "translate_s": effort.translate_s,
        "decodes": translations[0].decodes,
        "scouted": bool(earlier),
        "from_module": source.module is not None,
        "versions": versions,
        "wall_s": round(time.perf_counter() - begin, 1),
        "version": VERSION,
    }


def _search(program: Program, effort: Effort, share: float, seed: int) -> tuple[Mapping, list[Translation]]:
    """Maps a program and translates the mapping, in a share of the seconds; of flags alone, the mapping is foreseen."""
    judge, translate_s = make_judge(program), share * effort.translate_s
    if effort.solver == FLAGS_ONLY:
        assert program.production is not None
        found = translate(judge, program.production, translate_s, seed=seed, clock=time.process_time, flags_only=True)
        return found[0].mapping, found
    budget = Budget(share * effort.solve_s, clock=PROCESSOR)
    crossable = Codec(judge, seed).may_cross
    wanted = solve(program, effort.solver, budget=budget, seed=seed, solvers=solvers(), crossable=crossable).mapping
    return wanted, translate(judge, wanted, translate_s, seed=seed, clock=time.process_time)


def say(line: str) -> None:
    """Prints a line of progress."""
    print(f"  {line}", flush=True)
