"""Bounds for mappings in which no copy replaces an instruction, beside those for all and beside what games came to."""

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import agent_records
import bounds
from mallocmuzero.env.workloads.bounds import PATH
from solver_references import UNREPLACED


def by_problem(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    records = json.loads(path.read_text(encoding="utf-8"))["records"]
    return {
        tuple(record[key] for key in ("program", "program_sha256", "objective", "judged_by")): record
        for record in records
    }


def test_they_are_no_lower_than_those_for_all_mappings() -> None:
    legal, unreplaced = by_problem(PATH), by_problem(UNREPLACED)
    assert bounds.path_of("unreplaced") == UNREPLACED
    assert bounds.path_of("legal") == PATH
    assert unreplaced.keys() <= legal.keys()
    for key, record in unreplaced.items():
        assert record["bound"] >= legal[key]["bound"] * (1 - 1e-4), key


def test_no_game_undercuts_them() -> None:
    unreplaced = {
        (name, sha[:12], judged_by): r["bound"] for (name, sha, _, judged_by), r in by_problem(UNREPLACED).items()
    }
    met = 0
    for run in agent_records.read([agent_records.RESULTS]).values():
        bound = unreplaced.get((run["program"], run["program_sha256"], run["judged_by"]))
        if run["mode"] == agent_records.PER_PROGRAM and bound is not None:
            met += 1
            assert run["ratio"] >= bound - 1e-8, run["program"]  # as many digits are kept
    assert met > 0
