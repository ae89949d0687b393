"""The page of functions that nobody had tuned for, beside its results."""

from benchmarks.common.json_lines import read_runs
from benchmarks.round_trip.functions import key_of
from benchmarks.untuned.measure import FUNCTIONS, RESULTS
from benchmarks.untuned.page import PAGE, render, summary


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    runs = dict(read_runs([RESULTS], key_of))
    assert render(page, list(runs.values())) == page
    for run in runs.values():
        assert run["function"] in FUNCTIONS
        for model, us in run["confirmed_us"].items():  # what `robust` keeps is never worse than the default
            assert us <= run["default_us"][model] * (1 + 1e-9), (run["function"], model)


def test_the_summary_counts_gains_of_both_models() -> None:
    def run(msa: float, cycles: float, bound: float | None) -> dict[str, object]:
        before = {"msa": 100.0, "cycles": 100.0}
        return {
            "target": "v5e",
            "bound": bound,
            "default_us": before,
            "flags_us": before,
            "confirmed_us": {"msa": msa, "cycles": cycles},
        }

    *_, told = summary([run(80.0, 90.0, 0.7), run(90.0, 100.0, 0.9995), run(100.0, 100.0, None)])
    assert told == "| v5e | 3 | 1 | 1 | +10.0 % | +3.3 % | +10.0 % | +3.3 % |"
