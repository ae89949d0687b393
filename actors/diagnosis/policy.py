"""Confidence of the policy head over the legal moves, and its agreement with a line of play."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.game.moves import MOVE_NAMES, NUM_MOVES
from .inference import masked_log_softmax
from .trace import Trace

SURE = 0.9


@dataclass(frozen=True)
class Choices:
    """The policy at the decisions with a certain number of legal moves.

    Attributes:
      legal: number of legal moves.
      decisions: number of such decisions.
      entropy: mean entropy of the policy over the legal moves, in nats; None without such decisions.
      uniform: entropy of the uniform policy.
      sure: share of decisions in which one move has a probability above 0.9.
      agreement: share of decisions in which the line makes the policy's first choice.
    """

    legal: int
    decisions: int
    entropy: float | None
    uniform: float
    sure: float | None
    agreement: float | None


@dataclass(frozen=True)
class PolicyFigures:
    """The policy along a line of play.

    Attributes:
      decisions: number of decisions.
      sure, agreement: see `Choices`, over all decisions.
      probability: mean probability of the line's moves.
      illegal_mass: mean probability of illegal moves under the unmasked policy. The search masks them at its root.
      by_legal: the same by the number of legal moves.
      moves: number of decisions by the names of the line's move and of the policy's first choice.
    """

    decisions: int
    sure: float
    agreement: float
    probability: float
    illegal_mass: float
    by_legal: list[Choices]
    moves: dict[str, dict[str, int]]


def entropies(logits: NDArray[np.float64], legal: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Returns the entropy `[D]` of the policy over legal moves, in nats."""
    log = masked_log_softmax(logits, legal)
    return np.asarray(-(np.exp(log) * np.where(legal, log, 0.0)).sum(-1))


def describe_policy(trace: Trace, logits: NDArray[np.float64]) -> PolicyFigures:
    """Describes the policy along a line, given its unmasked logits `[D, A]`."""
    probability = np.exp(masked_log_softmax(logits, trace.legal))
    entropy, favourite = entropies(logits, trace.legal), probability.argmax(-1)
    sure, agrees = probability.max(-1) > SURE, favourite == trace.action
    count = trace.legal.sum(-1)
    by_legal = []
    for legal in range(2, NUM_MOVES + 1):
        here = count == legal
        figures = [float(f[here].mean()) if here.any() else None for f in (entropy, sure, agrees)]
        by_legal.append(
            Choices(
                legal=legal,
                decisions=int(here.sum()),
                entropy=figures[0],
                uniform=float(np.log(legal)),
                sure=figures[1],
                agreement=figures[2],
            )
        )
    return PolicyFigures(
        decisions=len(trace),
        sure=float(sure.mean()),
        agreement=float(agrees.mean()),
        probability=float(probability[np.arange(len(trace)), trace.action].mean()),
        illegal_mass=float(np.where(trace.legal, 0.0, np.exp(masked_log_softmax(logits))).sum(-1).mean()),
        by_legal=by_legal,
        moves={
            made: {
                liked: int(((trace.action == line) & (favourite == own)).sum()) for own, liked in enumerate(MOVE_NAMES)
            }
            for line, made in enumerate(MOVE_NAMES)
        },
    )
