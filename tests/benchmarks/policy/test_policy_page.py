"""The page of the policy: who is behind whom, on which problems, and with what interval."""

from typing import Any

import numpy as np
import pytest

from benchmarks.policy import measure
from benchmarks.policy.page import (
    LONG,
    PAGE,
    REPEATED,
    SHORT,
    Compared,
    compare,
    interval,
    kind_of,
    render,
    table,
    with_room,
)
from benchmarks.policy.players import ANNEAL, KNAPSACKS, RULES, TRAINED, instant_players, timed_players
from benchmarks.policy.problems import Problem, long_problems, problems


def record(
    program: str,
    player: str,
    judged: float,
    seconds: float = 0.1,
    seed: int = 0,
    times: int = 1,
    accesses: int = 1_000,
) -> dict[str, Any]:
    return {
        **Problem(program, 1.0, times, "msa")._asdict(),
        "program_sha256": Problem(program, 1.0, times, "msa").program_sha256,
        "player": player,
        "seconds": seconds,
        "seed": seed,
        "judged_s": judged,
        "production_s": 1.0,
        "spent_s": seconds,
        "accesses": accesses,
        "policy": measure.fingerprint(None),
        "versions": measure.versions_of(measure.GUIDED),
    }


RECORDS = [
    record("bert-b32-s384", TRAINED, 0.80),
    record("bert-b32-s384", ANNEAL, 0.88),
    record("strassen-8192", TRAINED, 0.90),
    record("strassen-8192", ANNEAL, 0.90),
    record("mixer-b64", TRAINED, 0.99),
    record("mixer-b64", ANNEAL, 0.999),
]


def test_problems_without_room_are_left_out_whoever_the_trained_policy_beats() -> None:
    assert {problem.program for problem in with_room(RECORDS)} == {"bert-b32-s384", "strassen-8192"}
    lines = table(RECORDS, 0.1, "msa", SHORT)
    assert "2 problems" in lines[0]
    assert len(lines) == 4
    assert "no worse than tuned" in lines[0]


def test_long_programs_and_repeated_ones_have_tables_of_their_own() -> None:
    long = [record("bert-large-adam-b8", player, 0.9, 10.0, accesses=14_215) for player in (TRAINED, ANNEAL)]
    repeated = [record("mixer-b64", player, 0.9, 10.0, times=20, accesses=10_400) for player in (TRAINED, ANNEAL)]
    assert [kind_of(records[0]) for records in (RECORDS, long, repeated)] == [SHORT, LONG, REPEATED]
    assert "1 problems" in table([*long, *repeated], 10.0, "msa", LONG)[0]


def test_a_player_is_compared_in_logarithms() -> None:
    found = compare(RECORDS[:4], ANNEAL)
    assert found is not None
    assert found.behind == pytest.approx(50 * np.log(0.88 / 0.80))
    assert found.of_production == pytest.approx(100 * np.sqrt(0.88 * 0.90))
    assert (found.better, found.worse) == (1, 0)
    assert found.low <= found.behind <= found.high
    assert isinstance(found, Compared)
    assert compare(RECORDS, "nobody") is None


def test_intervals_resample_families() -> None:
    low, high = interval(np.array([1.0, 1.0, 3.0]), ["a", "a", "b"])
    assert low == 1.0
    assert high == 3.0


def test_the_page_has_a_place_for_every_table() -> None:
    page = render(PAGE.read_text(encoding="utf-8"), RECORDS)
    assert "| trained | 84.85 % |" in page


def test_every_player_plays() -> None:
    problem = Problem("tiny", 1.0, 1, "msa")
    for players, seconds, names in (
        (instant_players(None, 0), 0.0, {TRAINED, "untrained", "shuffled", RULES, KNAPSACKS}),
        (timed_players(None, 0), 0.05, {TRAINED, "untrained", "shuffled", "none", ANNEAL}),
    ):
        assert set(players) == names
        for player in players.values():
            found = measure.solved(problem, player, seconds, 0)
            assert found["judged_s"] > 0.0
            assert found["games"] > 0


def test_long_problems_are_repeated_to_about_the_length() -> None:
    (problem,) = [each for each in long_problems("train", 2_000, ["msa"]) if each.program == "tiny"]
    assert 1_900 < problem.load().num_accesses < 2_100


def test_problems_are_those_that_can_be_played() -> None:
    found = {(each.program, each.share, each.objective) for each in problems("heldout", [1.0, 0.5], ["msa", "robust"])}
    # Instructions of this one reserve more than half of the fast memory.
    assert ("conformer-scan-b8-tpu7x", 1.0, "msa") in found
    assert ("conformer-scan-b8-tpu7x", 0.5, "msa") not in found
    # The code generator has not told the cycles of this one.
    assert ("conformer-17-adam-b2-v5p", 1.0, "msa") in found
    assert ("conformer-17-adam-b2-v5p", 1.0, "robust") not in found
