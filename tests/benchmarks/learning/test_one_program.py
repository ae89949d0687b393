"""Training on one program: its two arms, and the table that compares them."""

from typing import Any

import numpy as np

from benchmarks.common.timed_training import configure
from benchmarks.learning.one_program import ARMS, FROZEN, LEARNING, Job, key_of, settings_of
from benchmarks.learning.one_program_page import PAGE, render, table
from mallocmuzero.actors.self_play.config import RESIDENCY


def record(arm: str, best: float) -> dict[str, Any]:
    figures = {"first": 0.95, "best": best, "policy": best, "search": best, "moves": 4000, "updates": 100}
    return {**Job("dlrm-train-b2048", "msa", arm, 0, 60.0, "a").record(), **figures}


def test_the_arms_differ_in_learning_alone() -> None:
    learning, frozen = (configure(settings_of(Job("tiny", "robust", arm, 0, 1.0, "a")), "tiny", 0) for arm in ARMS)
    assert learning.actor == frozen.actor
    assert (learning.actor.decisions, learning.actor.objective) == (RESIDENCY, "robust")
    assert learning.learner == frozen.learner
    assert frozen.replay.min_size > 100 * learning.replay.min_size


def test_a_program_is_shown_once_both_arms_have_run() -> None:
    runs = [record(LEARNING, 0.90), record(FROZEN, 0.91)]
    assert len({key_of(run) for run in runs}) == 2
    assert table(runs[:1]) == table([])
    lines = table(runs)
    assert f"| {100 * np.log(0.91 / 0.90):+.2f} | 90.00 % | 91.00 % | 4,000 | 4,000 |" in lines[2]
    assert "| 95.00 % | 90.00 % | 91.00 % |" in lines[2]
    assert lines[2] in render(PAGE.read_text(), runs)
    assert len({line.count("|") for line in lines}) == 1
