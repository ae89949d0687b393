"""The default settings of a training run, by the game that it plays."""

from typing import Any

from ...actors.search.search import SearchConfig
from ...actors.self_play.config import RESIDENCY, ActorConfig
from ...learner.config import STORED, LearnerConfig
from ...learner.networks.codec import ScalarCodec
from ...learner.networks.network import NetworkConfig
from ...replay.config import ReplayConfig
from .config import TrainConfig, network_sizes

# Rewards and returns of a round are in per cent.
_RETURNS = ScalarCodec(limit=20.0, scale=0.05, bins=51)


def defaults_of(game: str) -> dict[str, Any]:
    """Returns the default settings of `residency` or `access` as plain values; workloads have no default."""
    config = _residency() if game == RESIDENCY else TrainConfig(workloads=("-",))
    values = config.to_json()
    del values["workloads"]
    return values


def _residency() -> TrainConfig:
    # docs/decisions/0050-nothing-to-follow.md
    actor = ActorConfig(decisions=RESIDENCY, games=16, follow=None)
    return TrainConfig(
        workloads=("-",),
        segment_period=2,
        network=NetworkConfig(
            **network_sizes(actor), width=64, candidate_width=48, projection_width=64, value=_RETURNS, reward=_RETURNS
        ),
        learner=LearnerConfig(
            batch_size=64,
            unroll_steps=2,
            td_steps=1,
            value_target=STORED,
            learning_rate=1e-3,
            warmup_steps=100,
            weight_decay=0.03,
            policy_weight=0.5,
            consistency_weight=0.5,
            outcome_weight=4.0,
            observation_dropout=0.1,
        ),
        replay=ReplayConfig(
            capacity=20_000,
            min_size=200,
            samples_per_insert=4.0,
            error_buffer=2_000.0,
            insert_timeout_s=1.0,
            priority_exponent=0.0,
        ),
        # Near a good plan a single change gains thousandths of a per cent.
        search=SearchConfig(simulations=16, max_considered=16, q_epsilon=0.005, value_scale=0.1),
        actor=actor,
    )
