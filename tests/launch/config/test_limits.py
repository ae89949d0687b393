"""Sizes that would take all memory are refused by name; what anybody would choose is not."""

from pathlib import Path

import pytest
from launch_cases import call, resolved, train_arguments

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.overrides import Overrides

ROOT = Path(__file__).parents[3]
SLIP = 999_999_999
SIZES = (
    *("network.width", "network.projection_width", "network.candidate_width", "network.representation_blocks"),
    *("network.dynamics_blocks", "network.prediction_blocks", "network.value.bins", "network.reward.bins"),
    *("learner.batch_size", "learner.unroll_steps", "learner.td_steps", "replay.capacity", "search.simulations"),
    *("actor.games", "actor.residency.candidates", "actor.residency.kicks", "schedule.evaluate_simulations"),
)


@pytest.mark.parametrize("name", SIZES)
def test_a_slip_of_the_finger_is_refused_by_name(name: str) -> None:
    with pytest.raises(UserError, match=rf"^--set {name}={SLIP}: {name} is {SLIP}; it must be at most [\d,]+$"):
        resolved(f"{name}={SLIP}")


@pytest.mark.parametrize("name", ["learner.warmup_steps", "learner.target_period", "search.max_depth"])
def test_what_is_counted_in_32_bits_stays_in_them(name: str) -> None:
    resolved(f"{name}={2**31 - 1}")
    with pytest.raises(UserError, match=f"{name} is {2**31}; it must be at most"):
        resolved(f"{name}={2**31}")


def test_lists_and_actors_too() -> None:
    with pytest.raises(UserError, match=r"network.grid_channels is .* at most"):
        resolved(f"network.grid_channels=[16,{SLIP}]")
    with pytest.raises(UserError, match=r"actors is .* at most"):
        resolved('topology="ray"', f"actors={SLIP}")
    with pytest.raises(UserError, match=r"replay.servers is .* at most"):
        resolved(
            'topology="ray"',
            "replay.capacity=90000",
            "replay.min_size=9000",
            "replay.error_buffer=9e6",
            "replay.servers=9000",
        )


def test_what_runs_have_had_is_accepted() -> None:
    resolved("search.simulations=800", "actor.games=1024", "learner.batch_size=2048", "network.width=2048")
    resolved("replay.capacity=10000000", "learner.td_steps=10000", "network.dynamics_blocks=40")
    for recipe in ("launch/policies/train.toml", "deploy/train.toml"):
        overrides = Overrides()
        overrides.add_file(ROOT / recipe)
        overrides.add({"workloads": ["tiny"]}, "--workload")
        overrides.resolve()


def test_nothing_has_been_made_by_then(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    status, _, errors = call(*train_arguments(run_dir, "--steps", "3", workload="tiny", actor__games=SLIP))
    assert status == 2
    assert f"actor.games is {SLIP}; it must be at most" in errors
    assert not run_dir.exists()


@pytest.mark.parametrize("command", ["evaluate", "diagnose"])
def test_simulations_of_other_commands_have_the_limit_too(tmp_path: Path, command: str) -> None:
    status, _, errors = call(command, str(tmp_path), "--workload", "tiny", "--simulations", str(SLIP))
    assert status == 2
    assert errors == f"mallocmuzero: error: --simulations is {SLIP}; it must be from 1 to 10,000\n"
