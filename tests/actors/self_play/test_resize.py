"""Resized programs: another problem, with a mapping by XLA's algorithm, that files keep."""

from pathlib import Path

import numpy as np
import pytest

from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.actors.self_play.resize import resize_fast_memory
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load


def test_less_memory_is_another_problem(tmp_path: Path) -> None:
    program = load("resnet50-b32-v4")
    small = resize_fast_memory(program, 0.5)
    assert small.name == "resnet50-b32-v4@0.5"
    assert small.target.fast_bytes == program.target.fast_bytes // 2
    assert small.sha256 != program.sha256
    assert small.production is not None
    assert not verify(small, small.target, small.production)
    # The same clock, so latencies compare: less memory, slower.
    of_small, of_large = make_judge(small, "msa").production_s, make_judge(program, "msa").production_s
    assert of_small is not None
    assert of_large is not None
    assert of_small > of_large
    game = ActorConfig().game(small)
    assert not game.done
    write_program(small, tmp_path / "small.json.gz")
    again = read_program(tmp_path / "small.json.gz")
    assert again.sha256 == small.sha256
    assert again.production is not None
    assert np.array_equal(again.production.access_fast, small.production.access_fast)


def test_all_of_it_is_the_same_problem() -> None:
    program = load("tiny")
    assert resize_fast_memory(program, 1.0).sha256 == program.sha256


@pytest.mark.parametrize(("share", "message"), [(0.0, "above 0"), (-1.0, "above 0"), (1e-6, "a larger share")])
def test_shares_that_cannot_be(share: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        resize_fast_memory(load("resnet50-b32-v4"), share)
