"""The programs of a new run: shares of one program's memory, and names that cannot be read."""

import dataclasses

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.session.opening import load_programs


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
