"""Captures programs of libraries, maps them, and has the real compiler confirm the mappings.

    python3.12 -m venv libraries && libraries/bin/pip install -r benchmarks/libraries/requirements.txt
    python -m benchmarks.libraries.measure --python libraries/bin/python [--functions NAME ...] [--targets v5e ...]
        [--folder runs/libraries] [--solver guided] [--solve-seconds 10] [--translate-seconds 30] [--candidates 4]
        [--compile-minutes 15] [--jobs N] [--minutes M] [--out FILE] [--dry-run]

PATH is an interpreter with the libraries. Appends the runs that FILE (docs/results/libraries.jsonl) lacks, so the
command may be stopped and repeated. FOLDER keeps the captures. A run is a round trip as `benchmarks.round_trip` makes
it, under `robust`, and a bound, which may take 30 seconds.

Then: python -m benchmarks.libraries.page
"""

import argparse
import sys
from pathlib import Path

from ..common.job_pool import one_thread, run_missing

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.capture.environment import interpreter_path

from ..common.json_lines import ROOT, keyed_by, read_runs
from ..round_trip.functions import Job, perform
from ..round_trip.trip import add_arguments, effort_of, outcome_of

RESULTS = ROOT / "docs" / "results" / "libraries.jsonl"
MODULE = "benchmarks.libraries.functions"
# The library of each function, as people call it.
LIBRARIES = {
    "keras_efficientnet": "Keras",
    "keras_conv_lstm": "Keras",
    "keras_hub_gpt2": "KerasHub",
    "transformers_bert": "Transformers",
    "transformers_whisper_generate": "Transformers",
    "transformers_llama_generate": "Transformers",
    "gemma_tune": "Gemma",
    "haiku_transformer": "Haiku",
    "numpyro_nuts": "NumPyro",
    "numpyro_svi": "NumPyro",
    "blackjax_hmc": "BlackJAX",
    "ott_sinkhorn": "OTT",
    "diffrax_neural_ode": "Diffrax, Equinox",
    "brax_ants": "Brax",
    "mjx_arms": "MuJoCo XLA",
    "pallas_flash_attention": "JAX, Pallas",
    "pallas_megablox": "JAX, Pallas",
}
key_of = keyed_by("function", "target", "solver", "solve_s", "translate_s")


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=interpreter_path, required=True, metavar="PATH")
    parser.add_argument("--functions", nargs="+", choices=[*LIBRARIES], default=[*LIBRARIES], metavar="NAME")
    parser.add_argument("--targets", nargs="+", default=["v5e"], metavar="TARGET")
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "libraries", metavar="FOLDER")
    add_arguments(parser, solve_s=10.0, translate_s=30.0)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--dry-run", action="store_true", help="list the missing runs only")
    given = parser.parse_args()
    effort = effort_of(given)
    wanted = [
        Job(function, MODULE, target, str(given.folder), str(given.python), effort)
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
