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

from ..common.job_pool import one_thread

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.capture.environment import managed_python

from ..common.json_lines import ROOT
from ..round_trip.functions import add_function_arguments, run_functions
from ..round_trip.trip import say

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


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_function_arguments(parser, FUNCTIONS, "untuned", RESULTS)
    parser.set_defaults(jobs=1)
    given = parser.parse_args()
    return run_functions(given, MODULE, "" if given.dry_run else str(managed_python(say)))


if __name__ == "__main__":
    sys.exit(main())
