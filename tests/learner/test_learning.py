"""Network, search and update together learn a small game that needs foresight."""

from typing import Any

import jax
import numpy as np
import pytest
from numpy.typing import NDArray

from mallocmuzero.actors.search.search import SearchConfig, greedy, search
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.codec import ScalarCodec
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params
from mallocmuzero.learner.state import init_state
from mallocmuzero.learner.update import make_optimiser, make_update
from mallocmuzero.replay.segment import Batch

pytestmark = pytest.mark.usefixtures("optimised")

LENGTH = 12
GAMES = 64
DISCOUNT = 0.99
NETWORK = Network(
    NetworkConfig(
        observation_size=LENGTH + 2,
        width=64,
        projection_width=32,
        value=ScalarCodec(limit=5.0, bins=41),
        reward=ScalarCodec(limit=2.0, scale=0.1, bins=41),
    )
)
# A soft Q scale: the gaps here are 0.02 to 0.08, and a sharp one stops exploring before the early switch is found.
SEARCH = SearchConfig(simulations=8, discount=DISCOUNT, q_epsilon=0.1, value_scale=0.05)
LEARNER = LearnerConfig(
    batch_size=64, unroll_steps=3, td_steps=3, discount=DISCOUNT, learning_rate=3e-3, warmup_steps=20, target_period=20
)


class TwoLanes:
    """`GAMES` games of `LENGTH` moves at once. One move pays, one changes lane and pays nothing, one does nothing.

    Which is which depends on position and lane. The first lane pays a quarter of the second: of the payoff per move,
    random play gets about 0.2, taking every payment 0.25, changing lane at once and then taking every payment 0.92.
    """

    def __init__(self) -> None:
        self.lane = np.zeros(GAMES, int)
        self.position = 0
        self.paying = np.random.default_rng(3).integers(0, 3, (LENGTH, 2))

    def observe(self) -> NDArray[np.float32]:
        observation = np.zeros((GAMES, LENGTH + 2), np.float32)
        observation[:, self.position] = 1.0
        observation[np.arange(GAMES), LENGTH + self.lane] = 1.0
        return observation

    def step(self, action: NDArray[np.int32]) -> NDArray[np.float32]:
        kind = (action - self.paying[self.position, self.lane]) % 3
        reward = np.where(kind == 0, np.where(self.lane == 1, 1.0, 0.25), 0.0)
        self.lane = np.where(kind == 1, 1 - self.lane, self.lane)
        self.position += 1
        return (reward / LENGTH).astype(np.float32)


def play_with_search(params: Params, key: jax.Array) -> dict[str, NDArray[Any]]:
    """One batch of games as arrays `[GAMES, LENGTH + S, ...]`, padded with absorbing steps."""
    game, steps = TwoLanes(), LENGTH + LEARNER.segment_length
    legal = np.ones((GAMES, 3), bool)
    games = {
        "observation": np.zeros((GAMES, steps, LENGTH + 2), np.float32),
        "legal": np.ones((GAMES, steps, 3), bool),
        "action": np.zeros((GAMES, steps), np.int32),
        "reward": np.zeros((GAMES, steps), np.float32),
        "discount": np.zeros((GAMES, steps), np.float32),
        "policy": np.full((GAMES, steps, 3), 1 / 3, np.float32),
        "value": np.zeros((GAMES, steps), np.float32),
        "valid": np.zeros((GAMES, steps), bool),
    }
    for move, move_key in enumerate(jax.random.split(key, LENGTH)):
        games["observation"][:, move] = game.observe()
        found = search(NETWORK, params, move_key, games["observation"][:, move], legal, SEARCH)
        games["action"][:, move] = found.action
        games["policy"][:, move] = found.action_weights
        games["value"][:, move] = found.value
        games["reward"][:, move] = game.step(np.asarray(found.action))
        games["discount"][:, move] = move < LENGTH - 1
        games["valid"][:, move] = True
    return games


def mean_greedy_return(params: Params) -> float:
    game, total = TwoLanes(), np.zeros(GAMES)
    for _ in range(LENGTH):
        total += game.step(np.asarray(greedy(NETWORK, params, game.observe(), np.ones((GAMES, 3), bool))))
    return float(total.mean())


def sample(buffer: list[dict[str, NDArray[Any]]], generator: np.random.Generator) -> Batch:
    """A uniform batch of segments from the games in the buffer."""
    size, length = LEARNER.batch_size, LEARNER.segment_length
    rows = [
        (buffer[generator.integers(len(buffer))], generator.integers(GAMES), generator.integers(LENGTH))
        for _ in range(size)
    ]
    fields = {name: np.stack([games[name][row, t : t + length] for games, row, t in rows]) for name in buffer[0]}
    fields["outcome"] = np.full(fields["policy"].shape, np.nan, np.float32)
    return Batch(**fields, key=np.arange(size, dtype=np.uint64), probability=np.full(size, 1 / size), table_size=size)


def test_learns_to_change_lane_before_it_collects() -> None:
    generator = np.random.default_rng(0)
    state = init_state(NETWORK, make_optimiser(LEARNER), jax.random.PRNGKey(0))
    update = make_update(NETWORK, LEARNER)
    before = mean_greedy_return(state.params)
    buffer: list[dict[str, NDArray[Any]]] = []
    for round_ in range(25):
        buffer = [*buffer[-7:], play_with_search(state.params, jax.random.PRNGKey(round_))]
        for _ in range(16):
            state, metrics, priorities = update(state, sample(buffer, generator))
    after = mean_greedy_return(state.params)
    assert before < 0.3
    assert after > 0.8
    assert float(metrics["reward_error"]) < 0.01
    assert float(metrics["value_error"]) < 0.05
    assert np.asarray(priorities).shape == (LEARNER.batch_size,)
