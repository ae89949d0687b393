"""Measures time and memory by length of program, into docs/results/long_programs.jsonl.

    python -m benchmarks.long_programs.measure [FIGURE ...] [--accesses N ...] [--workload NAME] [--again]

The programs are a committed one, repeated (`repeated.py`); the figures are those of `figures.py`. Each row is measured
in a process of its own, so that its peak memory is its own, and appended at once: the command may be stopped and
repeated, and measures what the present versions have no row of. `python -m benchmarks.long_programs.page` makes the
page.
"""

import argparse
import json
import resource
import subprocess
import sys

from mallocmuzero.env.workloads import load

from ..common.json_lines import ROOT, Record, append, read_runs
from ..common.versions import is_current, versions_of
from .figures import FIGURES
from .repeated import repeated

RESULTS = ROOT / "docs" / "results" / "long_programs.jsonl"
ACCESSES = (100, 1_000, 10_000, 100_000)
WORKLOAD = "tiny"
# No figure takes longer; one that does is recorded as having no seconds.
_MOST_S = 300.0


def one(workload: str, accesses: int, figure: str) -> Record:
    """Measures one figure in this process; the short program before it compiles and loads what is needed."""
    program = load(workload)
    long = repeated(program, max(1, round(accesses / program.num_accesses)))
    if figure != "a bound":
        FIGURES[figure](repeated(program, 2))
    before = peak_mib()
    found = FIGURES[figure](long)
    return {
        "program_accesses": long.num_accesses,
        "instructions": long.num_instructions,
        "peak_mib": peak_mib(),
        "grown_mib": peak_mib() - before,
        **found,
    }


def peak_mib() -> float:
    """Returns the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def key_of(record: Record) -> tuple[str, int, str]:
    """Returns what tells one row from another."""
    return record["workload"], record["accesses"], record["figure"]


def main() -> None:
    """Measures the rows that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", nargs="*", choices=[[], *FIGURES], help="all by default")
    parser.add_argument("--accesses", nargs="+", type=int, default=ACCESSES)
    parser.add_argument("--workload", default=WORKLOAD)
    parser.add_argument("--again", action="store_true", help="also the rows that the file has")
    parser.add_argument("--here", action="store_true", help="one figure in this process, printed as JSON")
    arguments = parser.parse_args()
    if arguments.here:
        print(json.dumps(one(arguments.workload, arguments.accesses[0], arguments.figure[0])))
        return
    done = {key for key, record in read_runs([RESULTS], key_of) if is_current(record)}
    for figure in arguments.figure or FIGURES:
        for accesses in arguments.accesses:
            row = {"workload": arguments.workload, "accesses": accesses, "figure": figure}
            if key_of(row) in done and not arguments.again:
                continue
            row |= _in_a_process(figure, accesses, arguments.workload)
            append(RESULTS, {**row, "versions": versions_of("xla")})
            print(f"{figure}, {accesses:,} accesses: {row['seconds']}", flush=True)


def _in_a_process(figure: str, accesses: int, workload: str) -> Record:
    """Measures one figure in a process of its own. Raises SystemExit if it fails."""
    command = [sys.executable, "-m", "benchmarks.long_programs.measure", figure, "--here"]
    command += ["--accesses", str(accesses), "--workload", workload]
    try:
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, timeout=_MOST_S)
    except subprocess.TimeoutExpired:
        return {"seconds": None, "peak_mib": None}
    if said.returncode:
        raise SystemExit(f"{' '.join(command)} has ended with status {said.returncode}")
    found: Record = json.loads(said.stdout.strip().splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
