"""Records lines of play: observations, legal moves, moves, rewards and returns of a whole game.

Shapes: `D` decisions, `O` observation size, `A` moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import MallocGame
from ...env.program.mapping import Mapping
from ...learner.networks.network import Network, Params
from ...solvers.common.line import LineOfPlay
from ..search.search import greedy
from ..self_play.programs import ProgramContext

PRODUCTION, GREEDY, RUN, POLICY = "production", "greedy", "run", "policy"


@dataclass(frozen=True, eq=False)
class Trace:
    """The record of a whole game.

    Attributes:
      name: the player: `production` (follows XLA's mapping), `greedy`, `run` (the best line of its actors) or `policy`.
      observation: `[D, O]`.
      legal: `[D, A]`.
      action: `[D]`.
      reward: `[D]` the learner's reward of each move (`ProgramContext.rollout_latency_s`).
      value: `[D]` true discounted return from each decision on.
      latency_s: judged seconds of the game.
    """

    name: str
    observation: NDArray[np.float32]
    legal: NDArray[np.bool_]
    action: NDArray[np.int64]
    reward: NDArray[np.float64]
    value: NDArray[np.float64]
    latency_s: float

    def __len__(self) -> int:
        return len(self.action)


def record(
    name: str,
    context: ProgramContext,
    choose: Callable[[MallocGame, int], int],
    discount: float,
    opponent: NDArray[np.int8],
) -> Trace:
    """Plays a game and records it.

    Args:
      name: the player.
      context: the program.
      choose: returns the move in a game, given the number of the decision.
      discount: per move.
      opponent: `[A]` the preferences that rewards are counted against.
    """
    game = context.new_game()
    observations: list[NDArray[np.float32]] = []
    legals: list[NDArray[np.bool_]] = []
    rewards: list[float] = []
    rollout_latency_s = context.rollout_latency_s(game, opponent)
    while not game.done:
        observations.append(game.observe())
        legals.append(game.legal.copy())
        game.step_unpaid(choose(game, len(rewards)))
        before_s, rollout_latency_s = rollout_latency_s, context.rollout_latency_s(game, opponent)
        rewards.append((before_s - rollout_latency_s) / context.scale.unit_s)
    values, value = np.zeros(len(rewards)), 0.0
    for k in range(len(rewards) - 1, -1, -1):
        values[k] = value = rewards[k] + discount * value
    return Trace(
        name,
        np.array(observations, np.float32),
        np.array(legals, np.bool_),
        np.array(game.actions, np.int64),
        np.array(rewards),
        values,
        game.latency_s,
    )


def record_moves(
    name: str, context: ProgramContext, actions: Sequence[int], discount: float, opponent: NDArray[np.int8]
) -> Trace:
    """Records the game that `actions` play."""
    return record(name, context, lambda game, decision: int(actions[decision]), discount, opponent)


def record_policy(
    context: ProgramContext, network: Network, params: Params, discount: float, opponent: NDArray[np.int8]
) -> Trace:
    """Records the game in which every move is the policy's first choice."""

    def choose(game: MallocGame, decision: int) -> int:
        return int(greedy(network, params, game.observe()[None], game.legal[None])[0])

    return record(POLICY, context, choose, discount, opponent)


def follow_mapping(context: ProgramContext, mapping: Mapping) -> LineOfPlay:
    """Returns the line of play that follows a mapping as closely as the moves of the game allow."""
    game = context.game_following(mapping)
    return LineOfPlay(context.clone_game(), np.array(game.actions, np.int64), context.final_latency_s(game))
