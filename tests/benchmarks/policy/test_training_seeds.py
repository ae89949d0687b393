"""The table of training seeds: each policy beside its own placebos and the shipped one."""

from typing import Any

from benchmarks.common.json_lines import read_runs
from benchmarks.policy.measure import fingerprint, key_of
from benchmarks.policy.page import PAGE
from benchmarks.policy.training_seeds import RESULTS, render, table


def run(policy: str, player: str, seconds: float) -> dict[str, Any]:
    return {
        "program": "lstm-train-b64-s32",
        "share": 0.5,
        "times": 1,
        "objective": "msa",
        "policy": policy,
        "training": {"seed": 0, "updates": 1000, "programs": 20},
        "player": player,
        "judged_s": seconds,
        "production_s": 1.0,
        "spent_s": 0.01,
        "accesses": 100,
    }


def test_each_policy_is_compared_with_its_placebos_and_with_the_shipped_one() -> None:
    shipped = fingerprint(None)
    runs = [
        run(policy, player, seconds)
        for policy, own in ((shipped, 0.5), ("other", 0.6))
        for player, seconds in (("trained", own), ("untrained", 2 * own), ("shuffled", own))
    ]
    first, second = (line.split(" | ") for line in table(runs, "msa")[2:])
    assert (first[0], first[4], first[5], first[7], first[9]) == ("| shipped", "50.00 %", "+69.31", "+0.00", "")
    assert (second[0], second[4], second[5], second[9]) == ("| again", "60.00 %", "+69.31", "-18.23")


def test_without_the_shipped_policy_there_is_no_table() -> None:
    assert table([run("other", "trained", 0.5)], "msa") == []


def test_the_page_is_of_the_runs() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert render(page, [record for _, record in read_runs([RESULTS], key_of)]) == page
