"""Measures how long commands take to start, cold and warm, and writes docs/results/start.json.

    python -m benchmarks.start.measure [--against CHECKOUT] [--check] [--only WHAT ...]

Cold: with empty folders for compiled code, on one core and on two; processor seconds count all processes. Warm: once
everything is compiled, the least of several runs. `--against` also measures another checkout with the interpreter in
its `.venv`; `--check` ends with status 1 where a budget is missed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..common.json_lines import ROOT

RESULTS = ROOT / "docs" / "results" / "start.json"
WALL, PROCESSOR = "wall_s", "processor_s"
_WARM_RUNS = 5
_MODULE = ("-m", "mallocmuzero.launch.cli")

# The end of a run at the first game on its own clock: the games of warming up have no progress to report.
_FIRST_GAME = """
import os, sys
from mallocmuzero.launch.cli import main
import mallocmuzero.solvers.solve as solve

class Task(solve.Task):
    def __init__(self, *arguments, **options):
        self.counts = any(arguments[5:6])
        super().__init__(*arguments, **options)

    def offer(self, *offered):
        if self.counts:
            os._exit(0)
        return super().offer(*offered)

solve.Task = Task
sys.exit(main(sys.argv[1:]))
"""
# All that is compiled for `tune`: its solver, and the decoder of XLA's algorithm.
_TUNE = """
import mallocmuzero.launch.run.guided as learned
from mallocmuzero.solvers.solve import SOLVERS, warm_up
guided = learned.guided_solver() if hasattr(learned, "guided_solver") else learned.learned_solvers()["guided"]
try:
    from mallocmuzero.launch.start.solving import DECODES, compile_solvers
    from mallocmuzero.launch.terminal.compiling import Compiling
except ImportError:
    warm_up(guided)
    warm_up(SOLVERS["order-search"])
else:
    with Compiling() as compiling:
        compile_solvers(compiling, {**SOLVERS, "guided": guided}, "guided", DECODES)
"""
# Training up to its first update, without the report at its end.
_TRAIN = """
import sys
from mallocmuzero.launch.cli import main
import mallocmuzero.launch.train.experiment as experiment
experiment.finish = lambda *arguments: None
sys.exit(main(sys.argv[1:]))
"""


@dataclass(frozen=True)
class Case:
    """One start of one command.

    Attributes:
      name: what is started.
      arguments: of the interpreter; `{folder}` stands for an empty folder, `{run}` for a finished run.
      cold: nothing is compiled before.
      budget: most seconds, or None.
      of: the seconds that the budget is of.
    """

    name: str
    arguments: tuple[str, ...]
    cold: bool
    budget: float | None = None
    of: str = WALL


_SOLVE = ("solve", "tiny", "--evaluations", "1", "--output", "{folder}/mapping.json.gz")
_FIRST_UPDATE = ("train", "--workload", "tiny", "--steps", "1", "--run-dir", "{folder}/run")
CASES = (
    Case("solve tiny", (*_MODULE, *_SOLVE), True, 45.0, PROCESSOR),
    Case("tune, its preparation", ("-c", _TUNE), True, 45.0, PROCESSOR),
    Case("train, to its first update", ("-c", _TRAIN, *_FIRST_UPDATE), True, 45.0, PROCESSOR),
    Case("--help", (*_MODULE, "--help"), False, 0.3),
    Case("--version", (*_MODULE, "--version"), False, 0.3),
    Case("status RUN", (*_MODULE, "status", "{run}"), False, 0.3),
    Case("solve tiny, to its first game", ("-c", _FIRST_GAME, *_SOLVE), False, 1.5),
)


@dataclass(frozen=True)
class Row:
    """One measured start.

    Attributes:
      name, cold: as of the case.
      cores: that it ran on.
      wall_s, processor_s: seconds.
      functions: functions that Numba compiled.
      budget, of: as of the case.
    """

    name: str
    cold: bool
    cores: int
    wall_s: float
    processor_s: float
    functions: int
    budget: float | None
    of: str

    @property
    def missed(self) -> bool:
        """Whether the budget is missed."""
        return self.budget is not None and getattr(self, self.of) > self.budget


def measure(python: Path, cases: tuple[Case, ...], say: Callable[[str], None]) -> list[Row]:
    """Returns the figures of a checkout, measured with its interpreter."""
    available = sorted(os.sched_getaffinity(0))
    rows = []
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-start-") as name:
        folder = Path(name)
        run = folder / "finished"
        if any("{run}" in case.arguments for case in cases):
            say("a run for `status`")
            arguments = (*_FIRST_UPDATE[:-1], str(run))
            _start(python, ("-c", _TRAIN, *arguments), folder / "warm", folder, set(available))
        for case in cases:
            for cores in (1, 2) if case.cold and len(available) > 1 else (1,):
                on = set(available[:cores]) if case.cold else set(available)
                runs = [
                    _measured(python, case, folder / ("cold" if case.cold else "warm"), run, on)
                    for _ in range(1 if case.cold else 1 + _WARM_RUNS)
                ]
                # The first of several compiles what is not compiled yet.
                wall_s, processor_s, functions = min(runs[0 if case.cold else 1 :])
                row = Row(
                    case.name,
                    case.cold,
                    len(on),
                    round(wall_s, 3),
                    round(processor_s, 3),
                    functions,
                    case.budget,
                    case.of,
                )
                say(f"{row.name}: {row.wall_s:.2f} s, {row.processor_s:.2f} s of processors, on {row.cores} cores")
                rows.append(row)
    return rows


def _measured(python: Path, case: Case, cache: Path, run: Path, cores: set[int]) -> tuple[float, float, int]:
    """Returns wall seconds, processor seconds, and the functions that Numba compiled, of one start."""
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-start-") as name:
        folder = Path(name)
        cache = folder / "cache" if case.cold else cache
        before = _functions(cache)
        arguments = tuple(part.replace("{folder}", name).replace("{run}", str(run)) for part in case.arguments)
        wall_s, processor_s = _start(python, arguments, cache, folder, cores)
        return wall_s, processor_s, _functions(cache) - before


def _start(python: Path, arguments: tuple[str, ...], cache: Path, folder: Path, cores: set[int]) -> tuple[float, float]:
    """Starts a command; returns its wall and processor seconds. Raises SystemExit if it fails."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name
        not in ("NUMBA_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPROFILEIMPORTTIME")
    }
    environment["XDG_CACHE_HOME"] = str(cache)
    with (folder / "said").open("wb+") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(
            [python, *arguments],
            cwd=folder,
            env=environment,
            stdout=said,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{arguments[-6:]} ended with {process.returncode}:\n{said.read().decode()[-2000:]}")
    return wall_s, used.ru_utime + used.ru_stime


def _functions(cache: Path) -> int:
    return sum(1 for _ in cache.rglob("*.nbi")) if cache.exists() else 0


def commit(checkout: Path) -> str:
    """Returns the commit of a checkout, with `+` where files differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def main() -> int:
    """Measures, writes the file, and returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="measure this checkout too")
    parser.add_argument("--check", action="store_true", help="end with status 1 where a budget is missed")
    parser.add_argument("--only", nargs="+", metavar="WHAT", help="cases whose names contain one of these words")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    arguments = parser.parse_args()
    cases = tuple(case for case in CASES if not arguments.only or any(word in case.name for word in arguments.only))
    rows = measure(Path(sys.executable), cases, lambda text: print(text, flush=True))
    result: dict[str, Any] = {"commit": commit(ROOT), "rows": [asdict(row) for row in rows]}
    if arguments.against is not None:
        python = arguments.against.resolve() / ".venv" / "bin" / "python"
        other = measure(python, cases, lambda text: print(f"{arguments.against}: {text}", flush=True))
        result["against"] = {"commit": commit(arguments.against), "rows": [asdict(row) for row in other]}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    missed = [row for row in rows if row.missed]
    for row in missed:
        print(f"{row.name} on {row.cores} cores: {getattr(row, row.of):.2f} s, over the budget of {row.budget:g} s")
    return int(arguments.check and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
