"""The gradient learner of EGRL: arrays of NumPy in and out, padding hidden, updates that repeat."""

import numpy as np

from mallocmuzero.learner.egrl.config import GraphNetworkConfig, SacConfig
from mallocmuzero.learner.egrl.gradient_learner import Batch, GradientLearner

TENSORS, FEATURES, HOMES = 5, 4, 3


def make_learner(seed: int = 0) -> GradientLearner:
    features = np.random.default_rng(0).standard_normal((TENSORS, FEATURES)).astype(np.float32)
    edges = np.eye(TENSORS, k=1, dtype=bool) | np.eye(TENSORS, k=-1, dtype=bool)
    network = GraphNetworkConfig(FEATURES, HOMES, width=8, depth=2)
    return GradientLearner(features, edges, network=network, sac=SacConfig(batch=6), seed=seed)


def batches(count: int) -> list[Batch]:
    draw = np.random.default_rng(1)
    return [
        (draw.integers(HOMES, size=(6, TENSORS)).astype(np.int32), draw.random(6).astype(np.float32))
        for _ in range(count)
    ]


def test_posteriors_are_probabilities_of_the_real_tensors() -> None:
    learner = make_learner()
    policies = learner.fresh(4, seed=7)
    posteriors = learner.posteriors(np.concatenate([policies, learner.policy[None]]))
    assert posteriors.shape == (5, TENSORS, HOMES)
    np.testing.assert_allclose(posteriors.sum(-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(learner.fresh(4, seed=7), policies)


def test_updates_change_the_policy_and_repeat() -> None:
    first, second = make_learner(), make_learner()
    before = first.policy.copy()
    metrics = first.learn(batches(3))
    assert set(metrics) == {"value", "entropy", "critic_loss"}
    assert np.abs(first.policy - before).max() > 0
    for batch in batches(3):
        second.learn([batch])
    np.testing.assert_array_equal(first.policy, second.policy)
    assert first.learn([]) == {}
