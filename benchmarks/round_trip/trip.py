"""One round trip: a program's mapping, its translation, and what the real compiler makes of it."""

import time
from dataclasses import dataclass
from pathlib import Path

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.launch.run.guided import learned_solvers
from mallocmuzero.launch.terminal.confirmation_report import report
from mallocmuzero.roundtrip.candidates import translated_candidates
from mallocmuzero.roundtrip.comparison import flags_us
from mallocmuzero.roundtrip.confirm import confirm
from mallocmuzero.roundtrip.real_compiler import real_compiler
from mallocmuzero.roundtrip.source import find_source
from mallocmuzero.roundtrip.translate import translate
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.solve import SOLVERS, Solvers, solve
from mallocmuzero.version import VERSION

from ..common.json_lines import Record


@dataclass(frozen=True)
class Effort:
    """What a round trip may take.

    Attributes:
      solver: the solver of the mapping.
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
    budget = Budget(effort.solve_s, clock=PROCESSOR)
    solution = solve(program, effort.solver, budget=budget, solvers=solvers())
    judge = make_judge(program)
    translations = translate(judge, solution.mapping, effort.translate_s, clock=time.process_time)
    source = find_source(program, path)
    until = time.monotonic() + 60.0 * effort.compile_minutes
    with real_compiler(source, python, time_limit_s=60.0 * effort.compile_minutes, progress=say) as compiler:
        confirmation = confirm(
            program,
            None,
            translated_candidates(translations, effort.candidates),
            compiler,
            time_left_s=lambda: until - time.monotonic(),
            progress=say,
        )
        versions = compiler.versions()
    found = report(confirmation, solution.mapping)
    for tried in found["candidates"]:
        tried["option_bytes"] = sum(len(text) for text in tried.pop("options").values())
    return {
        **found,
        "program_sha256": program.sha256[:12],
        "target": program.target.name,
        "objective": judge.objective,
        "flags_us": flags_us(program),
        "solver": effort.solver,
        "solve_s": effort.solve_s,
        "translate_s": effort.translate_s,
        "decodes": translations[0].decodes,
        "from_module": source.module is not None,
        "versions": versions,
        "wall_s": round(time.perf_counter() - begin, 1),
        "version": VERSION,
    }


def say(line: str) -> None:
    """Prints a line of progress."""
    print(f"  {line}", flush=True)
