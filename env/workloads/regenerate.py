"""Captures the benchmark's programs again: `python -m mallocmuzero.env.workloads.regenerate [NAMES ...] [--check]`.

Every finished compilation is kept in a cache, so that an interrupted run goes on where it was, and a run with more
`--passes` makes only the compilations that it lacks. A workload that fails does not stop the others; the end of the
output lists the failures. With `--check` nothing is written, and nothing is taken from the cache. With `--complete`,
files of earlier captures get what they lack, in seconds each: the lowered module, what the compiler's log tells.
The exit status is 1 if a workload failed or, with `--check`, a file differs from the committed one.
"""

import argparse
import hashlib
import multiprocessing
import os
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..capture.capture import capture
from ..capture.compilations import Archive
from ..capture.complete import complete
from ..capture.environment import interpreter_path, managed_python, packages
from ..capture.simulator_events import STEP
from ..capture.variants import PASSES
from ..errors import UserError
from ..program.program import Program
from ..program.program_file import read_module, read_program, write_program
from ..program.target import find_target
from ..storage.cache import cache_folder
from . import MODELS_PARENT, Workload, all_names, workload

# Figures that captures began to keep after the first files were committed.
_NEWER_FIGURES = frozenset({"allocated_operands", "assignment", "estimates_off", "results_counted_again", "step_trips"})


@dataclass(frozen=True)
class Outcome:
    """The result of one workload.

    Attributes:
      name: of the workload.
      seconds: wall time.
      error: the failure in one line, or None.
      problem: the hash of the program, and how it compares with the committed one.
      same_file: the file is byte for byte the committed one, but for figures that captures did not keep when the
        committed one was made.
    """

    name: str
    seconds: float
    error: str | None = None
    problem: str = ""
    same_file: bool = False


@dataclass(frozen=True)
class _Job:
    """The arguments of one workload's capture; `passes` None for as many as the committed file has.

    With `quick`, and where the committed file has no cycle table and no `passes` are given, nothing is compiled beyond
    the assignment of memory.
    """

    entry: Workload
    python: Path
    check: bool
    passes: int | None
    quick: bool
    cache: Path | None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="regenerate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; by default all of the manifest")
    parser.add_argument("--check", action="store_true", help="compile again, compare, and write nothing")
    parser.add_argument(
        "--complete", action="store_true", help="only add to the files of earlier captures what they lack"
    )
    parser.add_argument(
        "--python",
        type=interpreter_path,
        help="interpreter with jax, libtpu and the packages of the models; by default one is made, once, and kept",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="workloads at a time; each takes one core and 3 GiB"
    )
    parser.add_argument(
        "--passes",
        type=int,
        metavar="N",
        help="compilations for the cycle table beside the default; 0 for neither cycles nor variants; by default as "
        f"many as the committed file has, {PASSES} for a new file",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="compile only until memory is assigned, for a program with `msa` alone; always where the committed file "
        "has no cycle table",
    )
    parser.add_argument(
        "--cache", type=Path, metavar="FOLDER", help="folder of finished compilations; by default in the user's cache"
    )
    options = parser.parse_args(arguments)
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{_clock(begun)}] {line}", flush=True)

    try:
        chosen = [workload(name) for name in options.names or all_names()]
        chosen = [entry for entry in chosen if options.names or not entry.left_out]
        python = options.python or managed_python(say)
    except UserError as error:
        print(f"regenerate: {error}", file=sys.stderr)
        return 2
    if options.complete:
        return _complete([entry for entry in chosen if entry.path.exists()], python, say)
    cache = None if options.check else options.cache or cache_folder() / "compilations"
    jobs = [_Job(entry, python, options.check, options.passes, options.quick, cache) for entry in chosen]
    outcomes: list[Outcome] = []
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max(1, options.jobs), spawn, _end_with_parent, (os.getpid(),)) as pool:
        for future in as_completed([pool.submit(_regenerate, job, begun) for job in jobs]):
            outcome = future.result()
            outcomes.append(outcome)
            result = outcome.error or f"{outcome.problem}, file {'as it was' if outcome.same_file else 'differs'}"
            say(f"{len(outcomes)}/{len(jobs)} {outcome.name}: {result} ({outcome.seconds:.0f} s)")
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    differing = [outcome for outcome in outcomes if outcome.error is None and not outcome.same_file]
    say(f"{len(outcomes) - len(failed)} programs captured, {len(differing)} files differ, {len(failed)} failed")
    for outcome in failed:
        print(f"failed: {outcome.name}: {outcome.error}", file=sys.stderr, flush=True)
    return int(bool(failed) or (options.check and bool(differing)))


def _complete(chosen: list[Workload], python: Path, say: Callable[[str], None]) -> int:
    """Completes the files of earlier captures; returns the exit status."""
    failed = 0
    for entry in chosen:
        try:
            before = entry.path.stat().st_size
            added = complete(entry.path, entry.reference, find_target(entry.target)[1], python, MODELS_PARENT)
            if added:
                say(f"{entry.name}: {' and '.join(added)}, {entry.path.stat().st_size - before:,} bytes more")
        except UserError as error:
            failed += 1
            print(f"failed: {entry.name}: {error}", file=sys.stderr, flush=True)
    return int(failed > 0)


def _passes(committed: Program | None) -> int:
    """Returns the number of compilations besides the default one that a file was made from; `PASSES` for a new file."""
    return PASSES if committed is None or committed.cycles is None else committed.cycles.compilations - 1


def _clock(begun: float) -> str:
    seconds = int(time.monotonic() - begun)
    return f"{time.strftime('%H:%M:%S')} +{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _end_with_parent(parent: int) -> None:
    """Makes a process of the pool end when the command is gone."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _regenerate(job: _Job, begun: float) -> Outcome:
    """Captures one workload. `begun` is a monotonic time, on a clock that all processes of a machine share."""
    entry = job.entry
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"[{_clock(begun)}] {entry.name}: {line}", flush=True)

    before = entry.path.read_bytes() if entry.path.exists() else b""
    try:
        committed = read_program(entry.path) if before else None
        problem = "" if committed is None else committed.sha256
        quick = job.quick or (job.passes is None and committed is not None and committed.cycles is None)
        with tempfile.TemporaryDirectory(prefix="mallocmuzero-regenerate-") as folder:
            output = Path(folder) / entry.path.name if job.check else entry.path
            program = capture(
                entry.reference,
                entry.target,
                output,
                python=job.python,
                name=entry.name,
                family=entry.family,
                options=entry.options,
                working_folder=MODELS_PARENT,
                passes=0 if quick else (_passes(committed) if job.passes is None else job.passes),
                quick=quick,
                like=committed,
                archive=None if job.cache is None else Archive(job.cache / entry.name, _described(entry)),
                progress=say,
            )
            same_file = output.read_bytes() == before
            if not same_file and committed is not None:
                older = replace(program, compiler=older_figures(program.compiler, committed.compiler))
                write_program(older, Path(folder) / "older.json.gz", read_module(output))
                same_file = (Path(folder) / "older.json.gz").read_bytes() == before
    except UserError as error:
        return Outcome(entry.name, time.monotonic() - started, error=str(error))
    except Exception as error:  # noqa: BLE001 -- a defect in one workload must not stop the others
        return Outcome(entry.name, time.monotonic() - started, error=f"{type(error).__name__}: {error}")
    says = "new" if not before else ("as committed" if program.sha256 == problem else "changed")
    return Outcome(entry.name, time.monotonic() - started, None, f"{program.sha256[:16]} {says}", same_file)


def older_figures(found: dict[str, Any], committed: dict[str, Any]) -> dict[str, Any]:
    """Returns the compiler's figures as the capture that made a committed file would have kept them.

    Args:
      found: `Program.compiler` of a new capture.
      committed: that of the committed file.
    """
    older = {key: value for key, value in found.items() if key in committed or key not in _NEWER_FIGURES}
    if "step_trips" in found and "step_trips" not in committed:  # a step was listed once for each pass
        trips = iter(found["step_trips"])
        events = ([event] * (next(trips) if event == STEP else 1) for event in found["sequence"])
        older["sequence"] = [event for group in events for event in group]
    return older


def _described(entry: Workload) -> dict[str, str]:
    """Returns everything besides its options that a compilation of a workload depends on."""
    sources: dict[str, bytes] = {}
    _read_sources(entry.module, sources)
    digest = hashlib.sha256(b"".join(sources[name] for name in sorted(sources)))
    versions = " ".join(f"{name}=={version}" for name, version in packages().items())
    return {
        "function": entry.reference,
        "topology": find_target(entry.target)[1],
        "packages": versions,
        "source": digest.hexdigest(),
    }


def _read_sources(module: str, found: dict[str, bytes]) -> None:
    """Adds the source of a module of `models` to `found`, and those of the modules of `models` that it imports."""
    if module in found:
        return
    found[module] = (MODELS_PARENT / "models" / f"{module}.py").read_bytes()
    for imported in re.findall(rb"^ *from \.(\w+) import ", found[module], re.MULTILINE):
        _read_sources(imported.decode(), found)


if __name__ == "__main__":
    sys.exit(main())
