"""Policies come from files, from runs, or with the package."""

from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.run.policy import SHIPPED, load_policy
from mallocmuzero.learner.checkpoints.policy_file import read_policy


def test_the_shipped_policy_says_where_it_comes_from() -> None:
    policy = read_policy(SHIPPED)
    defaults = Overrides()
    defaults.add({"workloads": ["tiny"]}, "this test")
    assert policy.network.config == defaults.resolve().network
    held_out = ("bert", "llama", "lstm", "mixer", "convnext", "alphatensor", "strassen")
    names = [entry["name"] for entry in policy.info["programs"]]
    assert len(names) > 20
    assert not any(name.startswith(held_out) for name in names)
    for field in ("config", "seed", "code", "curve", "step"):
        assert policy.info[field] is not None
    assert SHIPPED.stat().st_size < 5e6


def test_a_run_without_a_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run"):
        load_policy(tmp_path)
