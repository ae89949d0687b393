"""Training on one program: its two arms, and the table that compares them."""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.timed_training import configure
from benchmarks.learning.one_program import ARMS, FROZEN, LEARNING, Job, key_of, settings_of
from benchmarks.learning.one_program_page import LONG_S, PAGE, render, summary, table
from benchmarks.learning.one_program_pairs import longest, pairs
from benchmarks.learning.one_program_picture import draw
from mallocmuzero.actors.self_play.config import RESIDENCY


def record(arm: str, best: float, seconds: float = 60.0) -> dict[str, Any]:
    policy = best + 0.01
    figures = {"first": 0.95, "best": best, "policy": policy, "search": best, "moves": 4000, "updates": 100}
    return {**Job("dlrm-train-b2048", "msa", arm, 0, seconds, False, "a").record(), **figures}


def test_the_arms_differ_in_learning_alone() -> None:
    learning, frozen = (
        configure(settings_of(Job("tiny", "robust", arm, 0, 1.0, False, "a")), "tiny", 0) for arm in ARMS
    )
    assert learning.actor == frozen.actor
    assert (learning.actor.decisions, learning.actor.objective) == (RESIDENCY, "robust")
    assert learning.learner == frozen.learner
    assert frozen.replay.min_size > 100 * learning.replay.min_size


def test_a_program_is_shown_once_both_arms_have_run() -> None:
    runs = [record(LEARNING, 0.90), record(FROZEN, 0.91)]
    assert len({key_of(run) for run in runs}) == 2
    assert table(runs[:1]) == table([])
    lines = table(runs)
    assert f"| {100 * np.log(0.91 / 0.90):+.2f} | 91.00 % | 92.00 % | 4,000 | 4,000 |" in lines[2]
    assert "| 95.00 % | 90.00 % | 91.00 % |" in lines[2]
    assert lines[2] in render(PAGE.read_text(), runs)
    assert len({line.count("|") for line in lines}) == 1


def test_the_summary_has_a_line_for_each_time_and_one_for_all_long_runs() -> None:
    runs = [record(LEARNING, 0.90), record(FROZEN, 0.89)]
    for seconds in (LONG_S, 2 * LONG_S):
        runs += [record(LEARNING, 0.90, seconds), record(FROZEN, 0.91, seconds)]
    lines = summary(runs)
    behind = 100 * np.log(0.91 / 0.90)
    assert [line.split("|")[2].strip() for line in lines[2:]] == ["60", "400", "800", "400 and more"]
    assert "| 0 / 1 | 1 of 1 |" in lines[2]
    assert f"| 1 | {behind:+.2f} |  | 1 / 0 | 1 of 1 |" in lines[-1]  # the shorter run is the beginning of the longer
    assert lines[-1].endswith(f"| 1 of 1 | {100 * np.log(0.92 / 0.91):+.2f} |  | 1 / 0 |")  # the policies alone
    assert len({line.count("|") for line in lines}) == 1
    assert summary([]) == table([])


def test_the_picture_shows_the_longest_run_of_each_program(tmp_path: Path) -> None:
    points = {"curve": [[15.0, 0.94], [30.0, 0.92]]}
    runs = [
        {**record(arm, best, seconds), **points}
        for seconds in (LONG_S, 2 * LONG_S)
        for arm, best in ((LEARNING, 0.90), (FROZEN, 0.91))
    ]
    (pair,) = longest(pairs(runs), LONG_S)
    assert pair.seconds == 2 * LONG_S
    draw([pair], tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 5_000
    draw([], tmp_path / "none.png")  # after a change of version, until the runs are made again
    assert not (tmp_path / "none.png").exists()
