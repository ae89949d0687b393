"""A run that this machine cannot hold is refused before anything is compiled or written."""

from pathlib import Path

import pytest
from launch_cases import call, resolved, train_arguments

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.session import memory
from mallocmuzero.launch.session.memory import check_memory, needed
from mallocmuzero.launch.terminal.compiling import Compiling
from mallocmuzero.replay.local.table import Table

GB = 10**9


@pytest.mark.parametrize(
    ("settings", "blamed"),
    [
        (["replay.capacity=100000000"], "replay.capacity = 100000000"),
        (["network.width=16384"], "network.width = 16384 and the blocks"),
        (["actor.games=10000", "search.simulations=10000"], "actor.games = 10000 with search.simulations = 10000"),
        (["learner.td_steps=100000", "replay.capacity=500"], "learner.batch_size = 64 with .*td_steps = 100000"),
    ],
)
def test_what_takes_most_is_named(settings: list[str], blamed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory", lambda: 16 * GB)
    with pytest.raises(UserError, match=rf"GB of memory or more, and this machine has 16: [\d,]+ GB are for {blamed}"):
        check_memory(resolved(*settings))


def test_the_defaults_fit_a_small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory", lambda: 1 * GB)
    check_memory(resolved())
    check_memory(resolved("actor.decisions=access"))


def test_what_may_be_on_other_machines_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory", lambda: 1)
    check_memory(resolved("topology=ray"))


def test_the_replay_is_counted_as_it_is_made() -> None:
    config = resolved("replay.capacity=3000")
    table = Table(config.replay, config.segment_spec)
    made = sum(array.nbytes for array in (*table.store.columns.values(), table.arrays()["rows"]))
    assert needed(config)["replay.capacity = 3000"] == pytest.approx(made, rel=0.1)


def test_nothing_has_been_compiled_or_made_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Compiling, "kernels", lambda *_: pytest.fail("compiles"))
    monkeypatch.setattr(memory, "memory", lambda: 1)
    status, _, errors = call(*train_arguments(tmp_path / "run", "--steps", "3", workload="tiny"))
    assert status == 2
    assert "lower that" in errors
    assert not (tmp_path / "run").exists()
