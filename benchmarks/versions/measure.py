"""Captures functions with several versions of jax and libtpu, and has each version confirm mappings.

    python -m benchmarks.versions.measure [--jax VERSION ...] [--pythons PATH ...] [--functions NAME:TARGET ...]
        [--confirmed NAME:TARGET ...] [--folder runs/versions] [--solver guided] [--solve-seconds 10]
        [--translate-seconds 30] [--candidates 4] [--compile-minutes 15] [--minutes M] [--out FILE] [--dry-run]

The functions are those of `benchmarks.untuned`. Each is compiled until memory is assigned, read back, and decoded by
our copy of XLA's algorithm. Those named by `--confirmed` make a round trip instead, as `benchmarks.round_trip` makes
it: they are mapped, the mapping is translated into options, and the same version confirms them.

Appends the runs that FILE (docs/results/versions.jsonl) lacks, so the command may be stopped and repeated. FOLDER keeps
the captures. For each version of `--jax` an interpreter is made, once, and kept, as `tune --jax` does; `--pythons`
names others, such as those of versions that need another Python. A run that ends with an error, the compiler's or ours,
is recorded with it.

Then: python -m benchmarks.versions.page
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from ..common.job_pool import one_thread, returning_traceback, run_missing

if __name__ == "__main__":
    one_thread()

import numpy as np

from mallocmuzero.env.capture.environment import find_interpreter, interpreter_path
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.compiler_flags import REFUSED
from mallocmuzero.env.program.program import Program
from mallocmuzero.solvers.xla.decoder import Decoder

from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from ..round_trip.functions import captured
from ..round_trip.trip import Effort, add_arguments, effort_of, round_trip, say
from ..untuned.measure import MODULE

RESULTS = ROOT / "docs" / "results" / "versions.jsonl"
VERSIONS = ("0.5.3", "0.6.2", "0.7.2", "0.8.0", "0.8.3", "0.9.0", "0.9.2", "0.10.0", "0.10.2")
READ = ("state_space:v5e", "preconditioned:v6e", "scanned_adafactor:v6e", "hybrid_layers:v5p")
CONFIRMED = ("graph_messages:v5e",)
key_of = keyed_by("jax", "libtpu", "function", "target")


class Job(NamedTuple):
    """One function, compiled by one interpreter; without an effort it is only read back."""

    python: str
    jax: str
    libtpu: str
    function: str
    target: str
    folder: str
    effort: Effort | None

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return f"{self.function} {self.target} jax {self.jax}"


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record."""
    record = {name: getattr(job, name) for name in ("jax", "libtpu", "function", "target")}
    path = Path(job.folder) / f"{job.function}-{job.target}-{job.jax}-{job.libtpu}.json.gz"
    python = Path(job.python)
    try:
        program = captured(f"{MODULE}:{job.function}", job.target, path, python, quick=job.effort is None)
        record |= {"refused": program.compiler.get(REFUSED, []), "error": None, **alike(program)}
        if job.effort is not None:
            record |= round_trip(program, path, python, job.effort)
            del record["mapping"]
    except (UserError, FormatError) as error:
        record["error"] = str(error)
    return record


def alike(program: Program) -> Record:
    """Returns how much of XLA's own mapping was read back, and how much of it our copy of its algorithm reproduces."""
    told = program.compiler
    found: Record = {
        "accesses": program.num_accesses,
        "inexpressible": told["inexpressible"],
        "estimates_off": told["estimates_off"],
        "bytes_alike": None,
    }
    if program.production is not None:
        same = Decoder(program).decode().access_fast == program.production.access_fast
        found["bytes_alike"] = float(np.average(same, weights=program.access_bytes))
    return found


def versions_of(python: Path) -> tuple[str, str]:
    """Returns the versions of jax and libtpu that an interpreter has."""
    code = "import json; from importlib.metadata import version as v; print(json.dumps([v('jax'), v('libtpu')]))"
    jax, libtpu = json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True).stdout)
    return jax, libtpu


def outcome_of(_: object, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return record["error"] or record.get("verdict") or f"{record['bytes_alike']:.2%} of the bytes alike"


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--pythons", nargs="*", default=[], type=interpreter_path, metavar="PATH")
    parser.add_argument("--functions", nargs="*", default=READ, metavar="NAME:TARGET")
    parser.add_argument("--confirmed", nargs="*", default=CONFIRMED, metavar="NAME:TARGET")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "versions", metavar="FOLDER")
    add_arguments(parser, solve_s=10.0, translate_s=30.0)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")
    parser.set_defaults(jobs=1)
    given = parser.parse_args()
    effort = effort_of(given)
    pythons = [
        *(find_interpreter(None, version, say) for version in given.jax),
        *(find_interpreter(python, None, say) for python in given.pythons),
    ]
    wanted = [
        Job(str(python), *versions_of(python), *what.split(":"), str(given.folder), how)
        for python in pythons
        for whats, how in ((given.functions, None), (given.confirmed, effort))
        for what in whats
    ]
    return run_missing(
        wanted,
        perform,
        lambda job, known: key_of(job._asdict()) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        outcome_of,
        arguments=given,
        seconds=lambda job: 0.0 if job.effort is None else job.effort.solve_s + job.effort.translate_s,
    )


if __name__ == "__main__":
    sys.exit(main())
