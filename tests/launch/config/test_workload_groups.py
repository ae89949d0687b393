"""Names of groups stand for their programs, with a share of fast memory for those that can be played with it."""

from mallocmuzero.actors.self_play.resize import leaves_memory
from mallocmuzero.env import workloads
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.config.workload_groups import expand_groups


def test_a_group_stands_for_its_programs_in_the_place_where_it_is_named() -> None:
    train = workloads.names_of("train")
    assert expand_groups(["tiny@0.5", "train", "mine.json"]) == (["tiny@0.5", *train, "mine.json"], {})
    assert expand_groups(["corpus"]) == (workloads.corpus_names("train"), {})


def test_a_group_with_a_share_leaves_out_and_names_programs_that_reserve_more() -> None:
    overrides = Overrides()
    overrides.add({"workloads": ["train@0.5"]}, "--workload")
    found = overrides.resolve().workloads
    fit = {name: leaves_memory(workloads.load(name), 0.5) for name in workloads.names_of("train")}
    assert list(found) == [f"{name}@0.5" for name, fits in fit.items() if fits]
    assert overrides.left_out == {"train@0.5": [name for name, fits in fit.items() if not fits]}
    assert overrides.left_out["train@0.5"]


def test_what_is_no_share_is_left_to_the_loading_which_says_so() -> None:
    assert expand_groups(["train@half"])[0] == [f"{name}@half" for name in workloads.names_of("train")]
