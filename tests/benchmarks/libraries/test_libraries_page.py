"""The page of programs of libraries, beside its results."""

import ast

from benchmarks.common.json_lines import ROOT, read_runs
from benchmarks.libraries.measure import LIBRARIES, RESULTS
from benchmarks.libraries.page import PAGE, render
from benchmarks.round_trip.functions import key_of


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    runs = dict(read_runs([RESULTS], key_of))
    assert render(page, list(runs.values())) == page
    for run in runs.values():
        for model, us in run["confirmed_us"].items():  # what `robust` keeps is never worse than the default
            assert us <= run["default_us"][model] * (1 + 1e-9), (run["function"], model)


def test_every_program_has_its_library() -> None:
    """The programs cannot be imported here, where the libraries are not installed."""
    module = ast.parse((ROOT / "benchmarks" / "libraries" / "functions.py").read_text(encoding="utf-8"))
    named = [node.name for node in module.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]
    assert named == list(LIBRARIES)
