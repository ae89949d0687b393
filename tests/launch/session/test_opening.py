"""The programs of a new run, and what cannot be changed on resuming it."""

import dataclasses
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.session.opening import load_programs, reopen


def of(*names: str) -> TrainConfig:
    overrides = Overrides()
    overrides.add({"workloads": ["tiny"]}, "--workload")
    return dataclasses.replace(overrides.resolve(), workloads=names)


def test_shares_of_one_program_are_problems_of_their_own_and_share_its_arrays() -> None:
    half, whole, quarter = load_programs(of("tiny@0.5", "tiny", "tiny@0.25"))
    assert [program.name for program in (half, whole, quarter)] == ["tiny@0.5", "tiny", "tiny@0.25"]
    assert len({program.sha256 for program in (half, whole, quarter)}) == 3
    assert half.size is whole.size is quarter.size


@pytest.mark.parametrize(
    ("name", "message"),
    [("tiny@", "is no share"), ("tiny@much", "'much' is no share"), ("tinny@0.5", "tinny"), ("tiny@0", "above 0")],
)
def test_a_name_that_cannot_be_read_is_refused(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_programs(of(name))


def test_another_game_is_refused_by_the_option_that_asks_for_it(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create(of("tiny"), load_programs(of("tiny")))
    overrides = Overrides()
    overrides.add({"steps": 3}, "--steps")
    overrides.add({"actor": {"decisions": "access"}}, "--game")
    with pytest.raises(UserError, match=r"^--game: actor.decisions is 'access', but .* was begun with another value"):
        reopen(run, overrides)
