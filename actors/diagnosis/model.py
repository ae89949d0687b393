"""Errors of the learned model: unrolls it along the moves of a real game and compares.

Shapes: `S` start states, `K` imagined steps, `A` moves.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ...learner.networks.network import Network, Params
from .inference import Heads, masked_log_softmax, project, recurrent
from .trace import Trace


@dataclass(frozen=True)
class Depth:
    """Errors after `depth` imagined steps, averaged over the start states; None where there is nothing to compare.

    Attributes:
      depth: imagined steps.
      states: start states whose game is not over by then.
      reward_error, reward_bias: absolute and signed error of the last step's reward.
      value_error, value_bias: absolute and signed error of the imagined value, against the true discounted return.
      seen_value_error: absolute error of the value at the real observation there.
      backup_error: absolute error of the backed-up value of the start state: imagined rewards and the value after them,
        as a search to this depth computes it.
      policy_kl: Kullback-Leibler divergence of the imagined policy from the policy at the real observation, over legal
        moves, in nats.
      same_move: share of states in which both policies prefer the same legal move.
      illegal_mass: probability that the unmasked imagined policy gives to moves that are illegal in the real game.
      cosine: cosine of the imagined latent state and the latent state of the real observation.
      projected_cosine: cosine of their projections, which the consistency loss trains; None without those heads.
    """

    depth: int
    states: int
    reward_error: float | None
    reward_bias: float | None
    value_error: float | None
    value_bias: float | None
    seen_value_error: float | None
    backup_error: float | None
    policy_kl: float | None
    same_move: float | None
    illegal_mass: float | None
    cosine: float | None
    projected_cosine: float | None


@dataclass(frozen=True)
class ModelErrors:
    """Errors of the model along a line of play.

    Attributes:
      starts: number of start states.
      constant_reward_error, constant_value_error: mean absolute errors of the best constants, which a model that has
        learned something undercuts.
      clipped_rewards: number of rewards beyond the limit of the network's codec.
      depths: errors by the number of imagined steps, from 0.
    """

    starts: int
    constant_reward_error: float
    constant_value_error: float
    clipped_rewards: int
    depths: list[Depth]


def compare_model(
    network: Network,
    params: Params,
    trace: Trace,
    heads: Heads,
    *,
    horizon: int,
    starts: int,
    discount: float,
    seed: int,
    projects: bool = True,
) -> ModelErrors:
    """Unrolls the model for `horizon` steps along a line, from start states sampled on it.

    Args:
      network, params: the agent.
      trace: the line.
      heads: the network's outputs at its observations.
      horizon: imagined steps.
      starts: most start states; all decisions where there are no more.
      discount: per move.
      seed: of the sample.
      projects: the parameters include the heads of the consistency loss.
    """
    generator = np.random.default_rng(seed)
    start = np.sort(generator.choice(len(trace), min(starts, len(trace)), replace=False))
    latent = jnp.asarray(heads.latent[start])
    reward, value, logits = np.zeros(len(start)), heads.value[start], heads.logits[start]
    earned = np.zeros(len(start))
    depths = []
    for depth in range(horizon + 1):
        if depth:
            before = np.minimum(start + depth - 1, len(trace) - 1)
            output = recurrent(network, params, latent, jnp.asarray(trace.action[before], jnp.int32))
            latent = output.latent
            reward, value, logits = (
                np.asarray(part, np.float64) for part in (output.reward, output.value, output.policy_logits)
            )
            earned = earned + discount ** (depth - 1) * reward
        alive, made = start + depth < len(trace), start + depth <= len(trace)
        there = np.minimum(start + depth, len(trace) - 1)
        projected = None
        if projects:
            imagined_there = project(network, params, latent, online=True)
            seen_there = project(network, params, jnp.asarray(heads.latent[there]), online=False)
            projected = _cosine(np.asarray(imagined_there), np.asarray(seen_there))
        legal = trace.legal[there]
        imagined, real = masked_log_softmax(logits, legal), masked_log_softmax(heads.logits[there], legal)
        ratio = np.where(legal, real, 0.0) - np.where(legal, imagined, 0.0)
        reward_error = reward - trace.reward[np.minimum(start + depth - 1, len(trace) - 1)] if depth else None
        value_error = value - trace.value[there]
        depths.append(
            Depth(
                depth=depth,
                states=int(alive.sum()),
                reward_error=_mean(None if reward_error is None else np.abs(reward_error), alive),
                reward_bias=_mean(reward_error, alive),
                value_error=_mean(np.abs(value_error), alive),
                value_bias=_mean(value_error, alive),
                seen_value_error=_mean(np.abs(heads.value[there] - trace.value[there]), alive),
                backup_error=_mean(np.abs(earned + discount**depth * value - trace.value[start]), made),
                policy_kl=_mean((np.exp(real) * ratio).sum(-1), alive),
                same_move=_mean(imagined.argmax(-1) == real.argmax(-1), alive),
                illegal_mass=_mean(np.where(legal, 0.0, np.exp(masked_log_softmax(logits))).sum(-1), alive),
                cosine=_mean(_cosine(np.asarray(latent), heads.latent[there]), alive),
                projected_cosine=_mean(projected, alive),
            )
        )
    return ModelErrors(
        starts=len(start),
        constant_reward_error=float(np.abs(trace.reward - np.median(trace.reward)).mean()),
        constant_value_error=float(np.abs(trace.value - np.median(trace.value)).mean()),
        clipped_rewards=int((np.abs(trace.reward) > network.config.reward.limit).sum()),
        depths=depths,
    )


def _cosine(left: NDArray[np.float32], right: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the cosine of each pair of rows."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return np.asarray((one * other).sum(-1) / np.maximum(lengths, 1e-12))


def _mean(values: np.ndarray | None, where: NDArray[np.bool_]) -> float | None:
    """Returns the mean of `values` at `where`; None if there are none."""
    return None if values is None or not where.any() else float(values[where].mean())
