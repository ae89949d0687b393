"""The agent that a diagnosis is about: a network, and the settings it plays by."""

from dataclasses import dataclass, field, replace

from ...learner.networks.network import Network, Params
from ..search.search import SearchConfig
from ..self_play.config import ActorConfig


@dataclass(frozen=True, eq=False)
class Agent:
    """A network that plays.

    Attributes:
      path: the run, policy file or checkpoint that it was read from.
      network, params: the network and its parameters.
      step: updates of the learner that made the parameters.
      actor: settings of its games.
      search: settings of its search. The discount is that of its values.
      seed: of everything random in the diagnosis.
      lines: the moves of the best lines of play of its actors, by the program's hash.
      projects: the parameters include the heads of the consistency loss, which a policy file leaves out.
    """

    path: str
    network: Network
    params: Params
    step: int
    actor: ActorConfig
    search: SearchConfig
    seed: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict)
    projects: bool = True

    def searching(self, simulations: int) -> SearchConfig:
        """Returns the settings of its search with another number of simulations."""
        return replace(self.search, simulations=simulations)
