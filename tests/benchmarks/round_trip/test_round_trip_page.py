"""The page of the round trip beside its results, and the losses in its summary."""

import re

from benchmarks.round_trip.page import PAGE, beats_flags, render, summary
from benchmarks.round_trip.records import RESULTS, programs, read


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    runs = list(read([RESULTS]).values())
    assert render(page, runs, programs()) == page
    for run in runs:
        assert f"`{run['program']}`" in page
        for model, us in run["confirmed_us"].items():  # what `robust` keeps is never worse than the default
            assert us is None or us <= run["default_us"][model] * (1 + 1e-9), (run["program"], model)


def test_losses_are_told() -> None:
    run = {
        "program": "p",
        "kept": "order",
        "default_us": {"msa": 100.0, "cycles": 100.0},
        "confirmed_us": {"msa": 90.0, "cycles": 101.0},
        "flags_us": {"msa": 100.0, "cycles": 99.0},
    }
    assert not beats_flags(run)
    told = "\n".join(summary([run], ["q"]))
    assert re.search("best of the flag grid by the worse ratio: 0 of 1", told)
    assert "Confirmed worse than it: `p`" in told
    assert "Worse than it under one model: `p (cycles -2.02 %)`" in told
    assert "over XLA's default: +10.00 % in `msa`, -1.00 % in `cycles`" in told
    assert "one model calls it worse than the default: `p`" in told
    assert "Not run yet: `q`" in told
