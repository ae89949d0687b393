"""The update step: state in, state out; schedules, target network, reanalyse."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learner_cases import make_batch

from mallocmuzero.env.errors import UserError
from mallocmuzero.learner import update as steps
from mallocmuzero.learner.batch import training_batch
from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.learner.reanalyse import reanalyse
from mallocmuzero.learner.state import TrainingState, init_state
from mallocmuzero.learner.update import Update, hide, learning_rate_schedule, make_optimiser, make_update

NETWORK = Network(NetworkConfig(observation_size=6, width=16, projection_width=8))
CONFIG = LearnerConfig(
    batch_size=4, unroll_steps=2, td_steps=2, learning_rate=3e-3, warmup_steps=5, target_period=3, weight_decay=0.0
)
BATCH = make_batch(CONFIG, 6, [9, 9, 9, 2])


def fresh_state(config: LearnerConfig = CONFIG) -> TrainingState:
    return init_state(NETWORK, make_optimiser(config), jax.random.PRNGKey(0))


def same(left: Any, right: Any) -> bool:
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.fixture(scope="module")
def update() -> Update:
    return make_update(NETWORK, CONFIG)


def test_repeated_updates_fit_a_batch_and_repeat_bit_for_bit(update: Update) -> None:
    first = []
    for _ in range(2):
        state = fresh_state()
        losses = []
        for _ in range(40):
            state, metrics, priorities = update(state, BATCH)
            losses.append(float(metrics["loss"]))
        assert losses[-1] < 0.7 * losses[0]
        assert int(state.step) == 40
        assert np.asarray(priorities).shape == (4,)
        first.append(state)
    assert same(*first)


def test_metrics_are_finite_scalars(update: Update) -> None:
    _, metrics, _ = update(fresh_state(), BATCH)
    for name, value in metrics.items():
        assert np.isfinite(float(value)), name


def test_hidden_observations_teach_what_zeros_teach(update: Update) -> None:
    all_hidden = make_update(NETWORK, replace(CONFIG, observation_dropout=1.0 - 1e-9))
    half_hidden = make_update(NETWORK, replace(CONFIG, observation_dropout=0.5))
    zeros = replace(BATCH, observation=np.zeros_like(BATCH.observation))
    after_zeros, after_all = fresh_state(), fresh_state()
    after_half, after_half_again, after_none = fresh_state(), fresh_state(), fresh_state()
    for _ in range(3):
        after_zeros, _, _ = update(after_zeros, zeros)
        after_all, _, _ = all_hidden(after_all, BATCH)
        after_half, _, _ = half_hidden(after_half, BATCH)
        after_half_again, _, _ = half_hidden(after_half_again, BATCH)
        after_none, _, _ = update(after_none, BATCH)
    kernels = [state.params["representation"]["input"]["kernel"] for state in (after_zeros, after_all, fresh_state())]
    assert np.array_equal(kernels[0], kernels[2])
    assert np.array_equal(kernels[1], kernels[2])  # what is hidden has no gradient
    assert same(after_half, after_half_again)
    assert not same(after_half.params, after_none.params)


def test_what_stays_visible_is_scaled_up(update: Update) -> None:
    batch = training_batch(replace(BATCH, observation=np.ones_like(BATCH.observation)), 1.0)
    hidden = np.asarray(hide(batch, jax.random.PRNGKey(1), 0.75).observation)
    assert set(np.unique(hidden)) == {0.0, 4.0}
    assert abs((hidden > 0).mean() - 0.25) < 0.1


def test_target_network_moves_only_every_period(update: Update) -> None:
    state = fresh_state()
    start = state.params
    for step in (1, 2, 3, 4):
        before = state
        state, _, _ = update(state, BATCH)
        if step == 3:
            assert same(state.target_params, state.params)
        else:
            assert same(state.target_params, before.target_params)
    assert not same(state.target_params, start)


def test_target_network_as_a_moving_average() -> None:
    config = LearnerConfig(unroll_steps=2, td_steps=2, target_period=1, target_rate=0.25, warmup_steps=0)
    state = fresh_state(config)
    after, _, _ = make_update(NETWORK, config)(state, BATCH)
    expected = jax.tree.map(lambda new, old: 0.25 * new + 0.75 * old, after.params, state.params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), after.target_params, expected)


def test_the_state_is_left_untouched(update: Update) -> None:
    state = fresh_state()
    copy = jax.tree.map(np.array, state)
    update(state, BATCH)
    assert same(state, copy)


def test_segments_of_another_length_are_refused(update: Update) -> None:
    other = make_batch(LearnerConfig(unroll_steps=3, td_steps=2), 6, [9])
    with pytest.raises(ValueError, match="segments have 6 steps, the learner needs 5"):
        update(fresh_state(), other)


def test_learning_rate_schedule() -> None:
    constant = learning_rate_schedule(LearnerConfig(learning_rate=1.0, warmup_steps=10))
    assert [float(constant(step)) for step in (0, 5, 10, 10000)] == [0.0, 0.5, 1.0, 1.0]
    falling = learning_rate_schedule(
        LearnerConfig(learning_rate=1.0, warmup_steps=10, decay_steps=100, final_learning_rate=0.1)
    )
    np.testing.assert_allclose([falling(step) for step in (10, 60, 110, 1000)], [1.0, 0.55, 0.1, 0.1], rtol=1e-5)
    assert float(learning_rate_schedule(LearnerConfig(learning_rate=1.0, warmup_steps=0))(0)) == 1.0


def test_weight_decay_shrinks_matrices_only() -> None:
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    optimiser = make_optimiser(LearnerConfig(learning_rate=0.1, warmup_steps=0, weight_decay=0.5))
    updates, _ = optimiser.update(jax.tree.map(jnp.zeros_like, params), optimiser.init(params), params)
    np.testing.assert_allclose(updates["kernel"], -0.05)
    np.testing.assert_array_equal(updates["bias"], 0.0)


class FoundByTest:
    """A search whose answers show where they went."""

    def __init__(self, observation: jax.Array) -> None:
        self.action_weights = jnp.tile(jnp.array([0.0, 0.0, 1.0]), (len(observation), 1))
        self.value = observation[:, 0] + 100.0


def search_of_test(params: Any, key: jax.Array, observation: jax.Array, legal: jax.Array) -> FoundByTest:
    assert legal.shape == (len(observation), 3)
    return FoundByTest(observation)


def test_reanalyse_renews_its_rows_at_the_unrolled_steps() -> None:
    config = LearnerConfig(unroll_steps=2, td_steps=2, reanalyse_fraction=0.5)
    old = training_batch(BATCH, 0.0)
    new = reanalyse(search_of_test, {}, jax.random.PRNGKey(0), jax.tree.map(jnp.asarray, old), config)
    np.testing.assert_array_equal(new.policy[:2, :3], np.broadcast_to([0.0, 0.0, 1.0], (2, 3, 3)))
    np.testing.assert_allclose(new.value[:2, :3], old.observation[:2, :3, 0] + 100.0)
    np.testing.assert_array_equal(new.policy[2:], old.policy[2:])
    np.testing.assert_array_equal(new.policy[:, 3:], old.policy[:, 3:])
    np.testing.assert_array_equal(new.value[2:], old.value[2:])


def test_reanalyse_inside_the_update() -> None:
    config = LearnerConfig(unroll_steps=2, td_steps=2, reanalyse_fraction=1.0, warmup_steps=0)
    _, metrics, _ = make_update(NETWORK, config, search_of_test)(fresh_state(config), BATCH)
    assert float(metrics["target_entropy"]) == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(ValueError, match="go together"):
        make_update(NETWORK, config)
    with pytest.raises(ValueError, match="go together"):
        make_update(NETWORK, CONFIG, search_of_test)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("batch_size", 0),
        ("unroll_steps", 0),
        ("discount", 0.0),
        ("target_rate", 1.5),
        ("learning_rate", -1.0),
        ("value_weight", float("nan")),
        ("clip_norm", 0.0),
        ("decay_steps", 0),
        ("value_target", "mean"),
        ("reanalyse_fraction", 1.1),
        ("observation_dropout", 1.0),
    ],
)
def test_a_bad_configuration_is_refused(field: str, value: object) -> None:
    with pytest.raises(UserError, match=field):
        LearnerConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("target", ["stored", "max"])
def test_stored_values_are_not_discounted(target: str) -> None:
    LearnerConfig(discount=0.9)
    with pytest.raises(UserError, match=r"discount is 0\.9, but the values that actors store are not discounted"):
        LearnerConfig(discount=0.9, value_target=target)


@pytest.mark.parametrize("partitionable", [False, True])
def test_no_two_draws_of_an_update_share_random_bits(partitionable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, jax.Array] = {}

    def spy(name: str, place: int, function: Any) -> Any:
        def called(*arguments: Any) -> Any:
            keys[name] = arguments[place]
            return function(*arguments)

        return called

    monkeypatch.setattr(steps, "hide", spy("hide", 1, steps.hide))
    monkeypatch.setattr(steps, "unrolled_loss", spy("action", 4, steps.unrolled_loss))
    before = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", partitionable)
    try:
        with jax.disable_jit():
            make_update(NETWORK, CONFIG)(fresh_state(), BATCH)
        # `randint` splits its key.
        drawn = [keys["hide"], keys["action"], *jax.random.split(keys["action"])]
        assert len({np.asarray(key).tobytes() for key in drawn}) == len(drawn)
    finally:
        jax.config.update("jax_threefry_partitionable", before)
