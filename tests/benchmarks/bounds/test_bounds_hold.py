"""Recorded bounds beside the results of games: no game is better than a bound."""

import json

import pytest

from benchmarks.agent import records as agent_records
from benchmarks.bounds import measure as bounds
from benchmarks.solvers import records as solver_records
from mallocmuzero.env.workloads.known_bounds import PATH


def test_where_the_bounds_of_a_scope_are_kept() -> None:
    assert bounds.path_of("legal") == PATH
    assert bounds.path_of("game").name == "bounds-game.json"


@pytest.mark.parametrize("records", [agent_records, solver_records], ids=["agent", "solvers"])
def test_no_game_undercuts_a_bound(records) -> None:
    known = {
        (record["program"], record["program_sha256"][:12], record["judged_by"]): record["bound"]
        for record in json.loads(PATH.read_text(encoding="utf-8"))["records"]
        if record["objective"] == "robust"
    }
    met = 0
    for run in records.read([records.RESULTS]).values():
        bound = known.get((run["program"], run["program_sha256"], run["judged_by"]))
        if bound is not None and run["ratio"] is not None:
            met += 1
            assert run["ratio"] >= bound - 1e-8, run["program"]  # as many digits are kept
    assert met > 100
