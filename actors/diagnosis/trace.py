"""Lines of play, recorded: what the player saw, did and earned.

Shapes: `D` decisions, `O` observation size, `A` moves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.game.game import MallocGame
from ...env.program.mapping import Mapping
from ...learner.networks.network import Network, Params
from ...solvers.common.line import LineOfPlay, play_to_end
from ...solvers.common.slack import preferences_of_mapping
from ..search.search import greedy
from ..self_play.played_program import PlayedProgram

PRODUCTION, GREEDY, RUN, POLICY = "production", "greedy", "run", "policy"


@dataclass(frozen=True, eq=False)
class Trace:
    """A whole game.

    Attributes:
      name: who played: `production` (follows XLA's mapping), `greedy`, `run` (the best line of its actors) or `policy`.
      observation: `[D, O]`.
      legal: `[D, A]`.
      action: `[D]`.
      reward: `[D]` of each move, as the learner counts it (`PlayedProgram.ahead_s`).
      value: `[D]` true discounted return from each decision on.
      latency_s: what the game comes to, as the judge counts.
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
    played: PlayedProgram,
    choose: Callable[[MallocGame, int], int],
    discount: float,
    opponent: NDArray[np.int8],
) -> Trace:
    """Plays a game and records it.

    Args:
      name: who plays.
      played: the program.
      choose: the move where a game stands, given the number of the decision.
      discount: per move.
      opponent: `[A]` the preferences that rewards are counted against.
    """
    game = played.new_game()
    observations: list[NDArray[np.float32]] = []
    legals: list[NDArray[np.bool_]] = []
    rewards: list[float] = []
    ahead_s = played.ahead_s(game, opponent)
    while not game.done:
        observations.append(game.observe())
        legals.append(game.legal.copy())
        game.step_unpaid(choose(game, len(rewards)))
        before_s, ahead_s = ahead_s, played.ahead_s(game, opponent)
        rewards.append((before_s - ahead_s) / played.scale.unit_s)
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
    name: str, played: PlayedProgram, actions: Sequence[int], discount: float, opponent: NDArray[np.int8]
) -> Trace:
    """Records the game of given moves."""
    return record(name, played, lambda game, decision: int(actions[decision]), discount, opponent)


def record_policy(
    played: PlayedProgram, network: Network, params: Params, discount: float, opponent: NDArray[np.int8]
) -> Trace:
    """Records the game in which every move is the policy's first choice."""

    def choose(game: MallocGame, decision: int) -> int:
        return int(greedy(network, params, game.observe()[None], game.legal[None])[0])

    return record(POLICY, played, choose, discount, opponent)


def following(played: PlayedProgram, mapping: Mapping) -> LineOfPlay:
    """Returns the line of play that comes as near to a mapping as the moves of the game do."""
    game = played.new_game()
    play_to_end(game, preferences_of_mapping(played.program, mapping))
    return LineOfPlay(played.unset_game(), np.array(game.actions, np.int64), played.outcome_s(game))
