"""Tunes training steps of MaxText with the command `tune`, as somebody would who trains with MaxText.

    python -m benchmarks.maxtext.measure --python PATH [--setups NAME ...] [--tune-minutes 12] [--workers 2]
        [--folder runs/maxtext] [--minutes M] [--out FILE] [--dry-run]

PATH is an interpreter with MaxText: `python3.12 -m venv maxtext && maxtext/bin/pip install 'maxtext[tpu]'`. It compiles
too, so options hold for the versions of jax and libtpu there. Appends the runs that FILE (docs/results/maxtext.jsonl)
lacks, so the command may be stopped and repeated. A run dumps the step, tunes the dump, and computes a bound, which may
take 30 seconds. FOLDER keeps the dumps, the captured programs, the options, and what `tune` printed.

Then: python -m benchmarks.maxtext.page
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from mallocmuzero.env.capture.environment import interpreter_path

from ..common.job_pool import returning_traceback, run_missing
from ..common.json_lines import ROOT, Record, keyed_by, read_runs
from .dump import dump, version_of
from .setups import SETUPS, Setup

RESULTS = ROOT / "docs" / "results" / "maxtext.jsonl"
# What MaxText's trainers add to LIBTPU_INIT_ARGS.
OPTION = "xla_tpu_spmd_rng_bit_generator_unsafe=true"
# Fields of what `tune --json` writes that a record keeps.
_KEPT = (
    *("default_us", "flags_us", "promised_us", "decoded_us", "confirmed_us", "kept", "untold", "verdict", "cycles_are"),
    *("decodes", "seconds", "versions", "realised", "realised_by_default", "program_sha256"),
)
key_of = keyed_by("setup", "arguments", "devices", "tune_minutes", "workers")


class Job(NamedTuple):
    """One training step to be tuned."""

    setup: Setup
    python: str
    maxtext: str
    tune_minutes: float
    workers: int
    folder: str

    def __str__(self) -> str:
        """Returns the name of the run for people."""
        return self.setup.name

    @property
    def key(self) -> Record:
        """The fields of its record that tell it from others."""
        return {
            "setup": self.setup.name,
            "arguments": self.setup.arguments,
            "devices": self.setup.devices,
            "tune_minutes": self.tune_minutes,
            "workers": self.workers,
        }


@returning_traceback
def perform(job: Job) -> Record:
    """Runs a job in this process; returns the record, with the error of `tune` if that fails."""
    folder, setup = Path(job.folder), job.setup
    module = folder / f"{setup.name}.mlir"
    if not module.exists():
        dump(Path(job.python), setup, module)
    found = {**job.key, "maxtext": job.maxtext, "target": setup.target}
    begin = time.monotonic()
    answer = folder / f"{setup.name}.json"
    program_path = folder / f"{setup.name}.json.gz"
    command = [
        *(sys.executable, "-m", "mallocmuzero", "tune", module, "--target", setup.target, "--python", job.python),
        *("--devices", setup.devices),
        *("--option", OPTION, "--minutes", job.tune_minutes, "--workers", job.workers),
        *("-o", folder / f"{setup.name}.flags", "--json", answer, "--program-output", program_path),
    ]
    answer.unlink(missing_ok=True)
    with (folder / f"{setup.name}.log").open("w", encoding="utf-8") as log:
        done = subprocess.run([str(word) for word in command], stdout=log, stderr=subprocess.STDOUT)
    found["wall_s"] = time.monotonic() - begin
    if done.returncode:
        told = (folder / f"{setup.name}.log").read_text(encoding="utf-8").strip().splitlines()
        return {
            **found,
            "error": told[-1].removeprefix("mallocmuzero: error: ") if told else f"exit status {done.returncode}",
        }
    told = json.loads(answer.read_text(encoding="utf-8"))
    return {**found, "error": None, **{name: told[name] for name in _KEPT}, **described(program_path)}


def described(path: Path) -> Record:
    """Returns the size of a captured program, its kernels, and its bound under `robust`."""
    from mallocmuzero.env.program.program_file import read_program

    from ..round_trip.functions import bound_of

    program = read_program(path)
    return {
        "instructions": program.num_instructions,
        "accesses": program.num_accesses,
        "loops": len(program.loop_trips),
        "kernels": program.compiler.get("kernels", 0),
        "kernels_without_cost": program.compiler.get("kernels_without_cost", 0),
        # A short `tune` leaves a program without cycles.
        "bound": None if program.cycles is None else bound_of(program),
    }


def outcome_of(_: object, record: Record) -> str:
    """Returns the outcome of a run in one line."""
    return record["error"] or f"{record['kept'] or 'the default stays'}: {record['verdict']}"


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [setup.name for setup in SETUPS]
    parser.add_argument("--python", type=interpreter_path, required=True, metavar="PATH")
    parser.add_argument("--setups", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--tune-minutes", type=float, default=12.0, metavar="M")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "maxtext", metavar="FOLDER")
    parser.add_argument(
        "--minutes", dest="budget_minutes", type=float, default=float("inf"), metavar="M", help="begin no run after"
    )
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")
    parser.set_defaults(jobs=1)
    given = parser.parse_args()
    version = version_of(given.python)
    wanted = [
        Job(setup, str(given.python), version, given.tune_minutes, given.workers, str(given.folder.resolve()))
        for setup in SETUPS
        if setup.name in given.setups
    ]
    return run_missing(
        wanted,
        perform,
        lambda job, known: key_of(job.key) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        outcome_of,
        arguments=given,
        seconds=lambda job: 60.0 * job.tune_minutes * job.workers,
    )


if __name__ == "__main__":
    sys.exit(main())
