"""The policy network as a proposal distribution over changes of a line of play."""

import jax
import numpy as np
from numpy.typing import NDArray

from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...learner.networks.network import Network, Params
from ...learner.networks.policy_head import log_policy
from .decisions import Decisions


class Proposer:
    """Asks the policy head how likely it holds moves other than the line's.

    Attributes:
      params: the parameters in use; fine-tuning replaces them.
      batch_size: decisions of a query. All queries have this size, hence one compilation. A query takes as long as some
        dozens of games.
    """

    batch_size = 256

    def __init__(self, network: Network, params: Params) -> None:
        self._network, self.params = network, params

    def odds(self, decisions: Decisions) -> NDArray[np.float64]:
        """Returns `[N, M]`: the probability of each legal move over that of the line's move; 0 for illegal moves and
        for the line's own. `N` is at most `batch_size`."""
        rows = len(decisions.access)
        observation, legal = self._empty_batch()
        observation[:rows], legal[:rows] = decisions.observation, decisions.legal
        found = np.asarray(log_policy(self._network, self.params, observation, legal), np.float64)[:rows]
        line = np.arange(rows), decisions.move
        # A plan may wait where the rules of the game forbid it. The policy has no probability for that: take uniform.
        uniform = -np.log(np.maximum(decisions.legal.sum(axis=1), 1))
        own = np.where(decisions.legal[line], found[line], uniform)
        found = np.where(decisions.legal, np.exp(np.minimum(found - own[:, None], 20.0)), 0.0)
        found[line] = 0.0
        return found

    def compile(self) -> None:
        """Compiles the network for `batch_size`."""
        jax.block_until_ready(log_policy(self._network, self.params, *self._empty_batch()))

    def _empty_batch(self) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        return (
            np.zeros((self.batch_size, OBSERVATION_SIZE), np.float32),
            np.ones((self.batch_size, NUM_MOVES), np.bool_),
        )
