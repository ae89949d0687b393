"""The search on hand-made models whose best move is known. Rows of a batch carry different masks."""

import dataclasses
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mallocmuzero.actors.search.search import SearchConfig, SearchResult, greedy, search
from mallocmuzero.env.errors import UserError
from mallocmuzero.learner.networks.network import Network, NetworkConfig, NetworkOutput

TRACES: list[str] = []


@dataclass(frozen=True)
class TableModel:
    """Stands in for `Network`: an exact model of a game of a few states. The observation is the state's number.

    Its parameters are tables: `next`, `reward`, `logits` `[states, 3]` and `value` `[states]`.
    """

    name: str = "table"

    def initial_inference(self, params: Any, observation: jax.Array) -> NetworkOutput:
        TRACES.append(self.name)
        state = observation[:, 0].astype(jnp.int32)
        return NetworkOutput(state, jnp.zeros(len(state)), params["value"][state], params["logits"][state])

    def recurrent_inference(self, params: Any, latent: jax.Array, action: jax.Array) -> NetworkOutput:
        state = params["next"][latent, action]
        reward = params["reward"][latent, action]
        return NetworkOutput(state, reward, params["value"][state], params["logits"][state])


MODEL = cast(Network, TableModel())
EXACT = SearchConfig(simulations=8, gumbel_scale=0.0, discount=1.0, q_epsilon=0.02)
ALL_LEGAL = np.ones((1, 3), bool)


def bandit(rewards: list[float], logits: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> dict[str, jax.Array]:
    """State 0 pays `rewards` and leads to state 1, which pays nothing for ever. The value of state 0 is right."""
    prior = np.exp(logits) / np.exp(logits).sum()
    return {
        "next": jnp.ones((2, 3), jnp.int32),
        "reward": jnp.array([rewards, [0.0] * 3]),
        "value": jnp.array([float(prior @ np.array(rewards)), 0.0]),
        "logits": jnp.array([logits, (0.0, 0.0, 0.0)]),
    }


def run(
    params: dict[str, jax.Array], legal: np.ndarray = ALL_LEGAL, config: SearchConfig = EXACT, key: int = 0
) -> SearchResult:
    observations = np.zeros((len(legal), 1), np.float32)
    found = search(MODEL, params, jax.random.PRNGKey(key), observations, legal, config)
    return cast(SearchResult, jax.tree.map(np.asarray, found))


def test_best_legal_move_of_each_row() -> None:
    legal = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 1, 0]], bool)
    result = run(bandit([0.0, 0.5, 1.0]), legal)
    np.testing.assert_array_equal(result.action, [2, 1, 0, 2, 1])
    np.testing.assert_array_equal(result.action_weights.argmax(-1), [2, 1, 0, 2, 1])
    np.testing.assert_allclose(result.action_weights.sum(-1), 1.0, rtol=1e-5)
    assert (result.action_weights[~legal] == 0.0).all()
    np.testing.assert_allclose(result.value, [1.0, 0.5, 0.0, 1.0, 0.5], atol=0.02)


def test_looks_past_a_small_reward_and_a_trap() -> None:
    params = {  # state 1: nothing follows; state 2: one move pays 1; state 3: every move costs 1
        "next": jnp.array([[1, 2, 3], [1, 1, 1], [1, 1, 1], [1, 1, 1]]),
        "reward": jnp.array([[0.1, 0.0, 0.3], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, -1.0, -1.0]]),
        "value": jnp.zeros(4),
        "logits": jnp.zeros((4, 3)),
    }
    legal = np.array([[1, 1, 1], [1, 0, 1]], bool)
    result = run(params, legal, SearchConfig(simulations=32, gumbel_scale=0.0, discount=1.0, q_epsilon=0.02))
    np.testing.assert_array_equal(result.action, [1, 0])
    myopic = run(
        params, legal, SearchConfig(simulations=32, gumbel_scale=0.0, discount=1.0, q_epsilon=0.02, max_depth=1)
    )
    np.testing.assert_array_equal(myopic.action, [2, 2])


@pytest.mark.parametrize("simulations", [8, 16])
@pytest.mark.parametrize("level", [0.0, 0.5, -20.0])
def test_equal_values_with_noise_leave_the_prior_alone(simulations: int, level: float) -> None:
    logits = (0.3, -0.5, 1.0)
    config = SearchConfig(simulations=simulations, gumbel_scale=0.0, discount=1.0, q_epsilon=0.02)
    result = run(bandit([level, level + 1e-6, level - 1e-6], logits), config=config)
    prior = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(result.action_weights[0], prior, atol=2e-3)
    assert result.action[0] == 2


def test_a_clear_gap_overrules_the_prior() -> None:
    result = run(bandit([0.0, 0.2, 0.0], (1.0, -1.0, 1.0)))
    assert result.action[0] == 1
    assert result.action_weights[0, 1] > 0.8


def test_a_disastrous_move_does_not_hide_the_gap_between_two_good_ones() -> None:
    without = run(bandit([0.0, 0.04, 0.0])).action_weights[0]
    beside = run(bandit([0.0, 0.04, -20.0])).action_weights[0]
    np.testing.assert_allclose(beside[1] / beside[0], without[1] / without[0], rtol=0.01)
    assert beside[1] > 10 * beside[0]


def test_the_transformation_of_mctx_does_hide_it_and_makes_noise_a_target() -> None:
    config = dataclasses.replace(EXACT, q_transform="mctx")
    beside = run(bandit([0.0, 0.04, -20.0]), config=config).action_weights[0]
    assert beside[1] < 1.1 * beside[0]
    noise = run(bandit([0.0, 1e-4, -1e-4]), config=config).action_weights[0]
    assert noise[1] > 5 * noise[0]


def test_illegal_moves_do_not_set_the_scale() -> None:
    # The root's value is far too high: an illegal, so unvisited move is completed with a value that no move has.
    params = bandit([0.0, 0.04, 0.0]) | {"value": jnp.array([5.0, 0.0])}
    weights = run(params, np.array([[1, 1, 0]], bool)).action_weights[0]
    assert weights[1] > 10 * weights[0]


def test_without_gumbel_noise_the_key_does_not_matter_and_with_it_the_play_varies() -> None:
    params = bandit([0.0, 0.0, 0.0])
    assert len({int(run(params, key=key).action[0]) for key in range(10)}) == 1
    noisy = SearchConfig(simulations=8, discount=1.0, q_epsilon=0.02)
    assert len({int(run(params, config=noisy, key=key).action[0]) for key in range(20)}) == 3


def test_compiles_once_per_configuration_and_batch_size() -> None:
    config = SearchConfig(simulations=3)
    TRACES.clear()
    for key in range(3):
        run(bandit([0.0, 0.1 * key, 0.0]), config=config, key=key)
    run(bandit([0.0, 0.0, 0.0]), config=SearchConfig(simulations=3))
    assert len(TRACES) == 1


def test_a_row_without_a_legal_move_is_refused() -> None:
    legal = np.array([[1, 1, 1], [0, 0, 0]], bool)
    with pytest.raises(ValueError, match=r"no legal move in rows \[1\]"):
        run(bandit([0.0, 0.0, 0.0]), legal)
    with pytest.raises(ValueError, match=r"rows \[1\]"):
        greedy(MODEL, bandit([0.0, 0.0, 0.0]), np.zeros((2, 1), np.float32), legal)


def test_greedy_takes_the_likeliest_legal_move() -> None:
    legal = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0]], bool)
    params = bandit([0.0, 0.0, 0.0], (2.0, -1.0, 1.0))
    np.testing.assert_array_equal(greedy(MODEL, params, np.zeros((3, 1), np.float32), legal), [0, 2, 1])


def test_searches_with_the_real_network() -> None:
    network = Network(NetworkConfig(observation_size=7, width=16, projection_width=8))
    params = network.init(jax.random.PRNGKey(0))
    observations = np.random.default_rng(0).normal(size=(4, 7)).astype(np.float32)
    result = search(network, params, jax.random.PRNGKey(1), observations, np.ones((4, 3), bool), SearchConfig())
    np.testing.assert_allclose(result.action_weights, 1 / 3, atol=1e-4)  # a fresh network knows of no difference
    np.testing.assert_allclose(result.value, 0.0, atol=1e-5)
    assert result.action.dtype == np.int32


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("simulations", 0),
        ("max_considered", 0),
        ("gumbel_scale", -1.0),
        ("discount", 1.5),
        ("q_epsilon", 0.0),
        ("value_scale", float("nan")),
        ("max_depth", 0),
        ("q_transform", "other"),
    ],
)
def test_a_bad_configuration_is_refused(field: str, value: float | str) -> None:
    with pytest.raises(UserError, match=field):
        SearchConfig(**{field: value})  # type: ignore[arg-type]
