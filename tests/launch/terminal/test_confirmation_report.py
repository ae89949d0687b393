"""The text of a confirmation."""

from typing import Any

from mallocmuzero.launch.terminal.confirmation_report import lines_of, verdict


def test_no_gain_is_told_without_the_other_models_word() -> None:
    before = {"msa": 100.0, "cycles": 100.0}
    assert verdict(before, {"msa": 90.0, "cycles": 110.0}) == "msa calls it 10.00% better; cycles calls it 10.00% WORSE"
    assert verdict(before, {"msa": 100.0, "cycles": None}) == ("msa sees no change; cycles are not known")


def test_an_input_that_the_compiler_would_not_prefetch_across_programs_is_named() -> None:
    figures: dict[str, Any] = {"msa": 100.0, "cycles": 100.0}
    result: dict[str, Any] = {
        "production_missing": None,
        "realised": {},
        "realised_by_default": {},
        "across": {"default": ["w"], "confirmed": ["x"]},
        "candidates": [],
        "printed_us": {"default": None, "confirmed": None},
        "untold": None,
        "kept": "cross",
        "default_us": figures,
        "confirmed_us": figures,
        "verdict": "",
    }
    assert "the previous execution prefetches x." in "\n".join(lines_of(result))
    result["across"]["confirmed"] = ["w"]
    assert "previous execution" not in "\n".join(lines_of(result))


def test_where_time_was_short_it_says_how_many_minutes_to_give() -> None:
    figures: dict[str, Any] = {"msa": 100.0, "cycles": 100.0}
    result: dict[str, Any] = {
        "production_missing": None,
        "realised": {},
        "realised_by_default": {},
        "candidates": [],
        "printed_us": {"default": None, "confirmed": None},
        "untold": "order+flags",
        "kept": None,
        "default_us": figures,
        "confirmed_us": figures,
    }
    told = "\n".join(lines_of({**result, "minutes": 6.0}))
    assert "no time to learn its cycles. Give --minutes 12, or --objective msa" in told
    assert "Give more time, or --objective msa" in "\n".join(lines_of(result))  # `impose`
