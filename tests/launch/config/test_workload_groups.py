"""Names of groups stand for their programs, with a share of fast memory for those that can be played with it."""

import logging

import pytest

from mallocmuzero.actors.self_play.resize import leaves_memory
from mallocmuzero.env import workloads
from mallocmuzero.launch.config.workload_groups import expand_groups


def test_a_group_stands_for_its_programs_in_the_place_where_it_is_named() -> None:
    train = workloads.names_of("train")
    assert expand_groups(["tiny@0.5", "train", "mine.json"]) == ["tiny@0.5", *train, "mine.json"]
    assert expand_groups(["corpus"]) == workloads.corpus_names("train")


def test_a_group_with_a_share_leaves_out_and_names_programs_that_reserve_more(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = expand_groups(["train@0.5"])
    left_out = [name for name in workloads.names_of("train") if f"{name}@0.5" not in found]
    fit = {name: leaves_memory(workloads.load(name), 0.5) for name in workloads.names_of("train")}
    assert left_out == [name for name, fits in fit.items() if not fits]
    assert left_out
    assert all(name in caplog.text for name in left_out)


def test_what_is_no_share_is_left_to_the_loading_which_says_so() -> None:
    assert expand_groups(["train@half"]) == [f"{name}@half" for name in workloads.names_of("train")]
