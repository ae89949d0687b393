"""What both topologies do with the learner's and the actors' rooms."""

from dataclasses import replace

import jax

from ...actors.evaluate.evaluate import Evaluation, evaluate_network
from ...actors.search.search import SearchConfig, SearchResult, search
from ...env.program.program import Program
from ...learner.checkpoints.checkpoint import Checkpoints
from ...learner.networks.network import Network, Params
from ...learner.state import TrainingState, init_state
from ...learner.update import Update, make_optimiser, make_update
from ..config.config import TrainConfig
from ..run.checkpoints import LEARNER
from .seeds import Role, seed_of
from .session import Resumed


def initial_state(config: TrainConfig, network: Network) -> TrainingState:
    """Returns the training state that a run begins with."""
    key = jax.random.PRNGKey(seed_of(config.seed, Role.LEARNER))
    return init_state(network, make_optimiser(config.learner), key)


def starting_state(config: TrainConfig, network: Network, resumed: Resumed | None) -> TrainingState:
    """Returns the training state to go on from. Raises UserError if the checkpoint's cannot be used."""
    state = initial_state(config, network)
    return state if resumed is None else Checkpoints(resumed.folder / LEARNER, network).restore(state)


def make_training_update(config: TrainConfig, network: Network) -> Update:
    """Returns the update step; what it reanalyses is searched as the actors search."""
    if not config.learner.reanalyse_fraction:
        return make_update(network, config.learner)

    def search_again(params: Params, key: jax.Array, observation: jax.Array, legal: jax.Array) -> SearchResult:
        return search(network, params, key, observation, legal, config.search)

    return make_update(network, config.learner, search_again)


def evaluation_search(config: TrainConfig, simulations: int) -> SearchConfig | None:
    """Returns how to search in an evaluation, or None for no simulations: the policy plays alone."""
    return replace(config.search, simulations=simulations) if simulations else None


def evaluate_parameters(
    config: TrainConfig, network: Network, params: Params, programs: list[Program]
) -> list[Evaluation]:
    """Returns one point of the learning curve: the policy alone, and with search where that is asked for."""
    evaluations = evaluate_network(network, params, programs, config.actor, None, config.seed)
    search = evaluation_search(config, config.schedule.evaluate_simulations)
    if search is not None:
        evaluations += evaluate_network(network, params, programs, config.actor, search, config.seed)
    return evaluations
