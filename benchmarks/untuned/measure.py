"""Captures the functions of this folder, maps them, and has the real compiler confirm the mappings.

    python -m benchmarks.untuned.measure [--functions NAME ...] [--targets v5e ...] [--folder runs/untuned]
        [--solver guided] [--solve-seconds 10] [--translate-seconds 30] [--candidates 4] [--compile-minutes 15]
        [--minutes M] [--out FILE] [--dry-run]

Appends the runs that FILE (docs/results/untuned.jsonl) lacks, so the command may be stopped and repeated. FOLDER keeps
the captures. A run is a round trip as `benchmarks.round_trip` makes it, under `robust`, and a bound, which may take 30
seconds. Seconds of solving and translating are processor time, minutes are wall time. The settings of the flag grid,
which results are compared with, are not among the candidates, though a candidate may choose the same flags.

Then: python -m benchmarks.untuned.page
"""

import argparse
import sys
from pathlib import Path

from ..common.job_pool import one_thread, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.capture.environment import managed_python

from ..common.json_lines import ROOT, keyed_by, read_runs
from ..round_trip.functions import Job, perform
from ..round_trip.trip import add_arguments, effort_of, outcome_of, say

RESULTS = ROOT / "docs" / "results" / "untuned.jsonl"
FUNCTIONS = (
    "gpt_muon",
    "state_space",
    "experts",
    "fourier_operator",
    "graph_messages",
    "convolutions_3d",
    "decode_int8",
    "policy_gradient",
    "preconditioned",
    "beam_search",
    "diffusion_sampling",
    "scanned_adafactor",
    "speech_ctc",
    "line_search",
    "hybrid_layers",
)
MODULE = "benchmarks.untuned.functions"
key_of = keyed_by("function", "target", "solver", "solve_s", "translate_s")


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS, metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=["v5e"], metavar="TARGET")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "untuned", metavar="FOLDER")
    add_arguments(parser, solve_s=10.0, translate_s=30.0)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")
    parser.set_defaults(jobs=1)
    given = parser.parse_args()
    effort = effort_of(given)
    python = "" if given.dry_run else str(managed_python(say))
    wanted = [
        Job(function, MODULE, target, str(given.folder), python, effort)
        for target in given.targets
        for function in given.functions
    ]
    return run_missing(
        wanted,
        perform,
        lambda job, known: key_of({**job._asdict(), **job.effort._asdict()}) not in known,
        lambda: dict(read_runs([given.out], key_of)),
        outcome_of,
        arguments=given,
        seconds=lambda job: job.effort.solve_s + job.effort.translate_s,
    )


if __name__ == "__main__":
    sys.exit(main())
