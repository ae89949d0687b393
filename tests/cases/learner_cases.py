"""Batches for the tests of the learner."""

import numpy as np

from mallocmuzero.learner.config import LearnerConfig
from mallocmuzero.replay.segment import Batch


def make_batch(config: LearnerConfig, observation_size: int, episode_left: list[int], seed: int = 0) -> Batch:
    """One random segment per entry of `episode_left`: the steps until its episode ends, absorbing ones follow."""
    generator = np.random.default_rng(seed)
    rows, steps = len(episode_left), config.segment_length
    left = np.asarray(episode_left)[:, None] - np.arange(steps)  # `[B, S]`; 1 on the last step
    valid = left > 0
    legal = generator.random((rows, steps, 3)) < 0.7
    legal[..., 0] |= ~legal.any(-1)
    legal[~valid] = True
    policy = np.where(legal, generator.random((rows, steps, 3)) + 0.1, 0.0)
    policy[~valid] = 1.0
    observation = generator.normal(size=(rows, steps, observation_size))
    return Batch(
        observation=(observation * valid[..., None]).astype(np.float32),
        legal=legal,
        action=np.where(valid, policy.argmax(-1), 0).astype(np.int32),
        reward=(0.1 * generator.normal(size=(rows, steps)) * valid).astype(np.float32),
        discount=(left > 1).astype(np.float32),
        policy=(policy / policy.sum(-1, keepdims=True)).astype(np.float32),
        value=(generator.normal(size=(rows, steps)) * valid).astype(np.float32),
        outcome=np.full((rows, steps, 3), np.nan, np.float32),
        valid=valid,
        key=np.arange(rows, dtype=np.uint64),
        probability=np.full(rows, 0.01),
        table_size=100,
    )
