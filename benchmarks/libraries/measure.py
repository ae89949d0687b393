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

from ..common.job_pool import one_thread

if __name__ == "__main__":
    one_thread()

from mallocmuzero.env.capture.environment import interpreter_path

from ..common.json_lines import ROOT
from ..round_trip.functions import add_function_arguments, run_functions

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


def main() -> int:
    """Runs what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=interpreter_path, required=True, metavar="PATH")
    add_function_arguments(parser, [*LIBRARIES], "libraries", RESULTS)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    given = parser.parse_args()
    return run_functions(given, MODULE, str(given.python))


if __name__ == "__main__":
    sys.exit(main())
