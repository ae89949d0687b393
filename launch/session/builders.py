"""Builds the parts of a run from its configuration: the learner's state and update, actors, evaluations, seeds."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum

import jax
import numpy as np

from ...actors.evaluate.evaluate import Evaluation, evaluate_network
from ...actors.evaluate.residency import evaluate_residency
from ...actors.search.search import SearchConfig, SearchResult, search
from ...actors.self_play.actor import SelfPlayActor
from ...actors.self_play.config import RESIDENCY
from ...actors.self_play.loop import Actor
from ...actors.self_play.residency_actor import ResidencyActor
from ...env.program.program import Program
from ...learner.checkpoints.checkpoint import Checkpoints
from ...learner.config import LearnerConfig
from ...learner.networks.network import Network, Params
from ...learner.state import TrainingState, init_state
from ...learner.update import Update, make_optimiser, make_update
from ...replay.interface import SegmentWriter
from ..config.config import TrainConfig
from ..run.checkpoints import LEARNER
from .snapshot import Resumed


class Role(IntEnum):
    """The parts of a run that draw random numbers. Numbers are never reused: equal runs depend on them."""

    LEARNER = 0
    REPLAY = 1
    ACTOR = 2


def seed_of(seed: int, role: Role, index: int = 0) -> int:
    """Returns the 32-bit seed of one part, derived from the run's only seed; `index` tells actors apart."""
    return int(np.random.SeedSequence([seed, int(role), index]).generate_state(1)[0])


def initial_state(config: TrainConfig, network: Network) -> TrainingState:
    """Returns the training state of a new run; repeated calls return the same one."""
    return _initial_state(network, config.learner, seed_of(config.seed, Role.LEARNER))


@functools.lru_cache(maxsize=1)
def _initial_state(network: Network, learner: LearnerConfig, seed: int) -> TrainingState:
    return init_state(network, make_optimiser(learner), jax.random.PRNGKey(seed))


def starting_state(config: TrainConfig, network: Network, resumed: Resumed | None) -> TrainingState:
    """Returns the training state of a new run, or of the checkpoint that the run is resumed from.

    Raises:
      UserError: the checkpoint cannot be used.
    """
    state = initial_state(config, network)
    return state if resumed is None else Checkpoints(resumed.folder / LEARNER, network).restore(state)


def make_training_update(config: TrainConfig, network: Network) -> Update:
    """Returns the learner's update step. Reanalyse searches with the actors' own search settings.

    Runs with equal settings in one process share the step, and with it JAX's traces and compiled code.
    """
    return _training_update(network, config.learner, config.search if config.learner.reanalyse_fraction else None)


@functools.cache
def _training_update(network: Network, learner: LearnerConfig, settings: SearchConfig | None) -> Update:
    if settings is None:
        return make_update(network, learner)

    def search_again(params: Params, key: jax.Array, observation: jax.Array, legal: jax.Array) -> SearchResult:
        return search(network, params, key, observation, legal, settings)

    return make_update(network, learner, search_again)


def make_actor(
    config: TrainConfig,
    programs: Sequence[Program],
    network: Network,
    *,
    writers: Sequence[SegmentWriter],
    seed: int,
) -> Actor:
    """Returns an actor with all its games begun; parameters are still to be set."""
    if config.actor.decisions == RESIDENCY:
        return ResidencyActor(programs, network, config.search, config.actor, writers, seed)
    return SelfPlayActor(programs, network, config.search, config.actor, writers, seed, config.segment_spec.length)


def evaluation_search(config: TrainConfig, simulations: int) -> SearchConfig | None:
    """Returns the search of an evaluation; None, the policy without search, for no simulations."""
    return replace(config.search, simulations=simulations) if simulations else None


def evaluate_parameters(
    config: TrainConfig, network: Network, params: Params, programs: list[Program]
) -> list[Evaluation]:
    """Returns one point of the learning curve: the policy alone, then with search if the schedule asks for it."""
    programs = evaluated_programs(config, programs)
    evaluations = evaluate_agent(config, network, params, programs, None)
    search = evaluation_search(config, config.schedule.evaluate_simulations)
    if search is not None:
        evaluations += evaluate_agent(config, network, params, programs, search)
    return evaluations


def evaluated_programs(config: TrainConfig, programs: Sequence[Program]) -> list[Program]:
    """Returns the programs that an evaluation plays: all, or `schedule.evaluate_most`, evenly spaced."""
    most = config.schedule.evaluate_most
    if len(programs) <= most:
        return list(programs)
    return [programs[number * len(programs) // most] for number in range(most)]


def evaluate_agent(
    config: TrainConfig, network: Network, params: Params, programs: Sequence[Program], search: SearchConfig | None
) -> list[Evaluation]:
    """Evaluates an agent in the game of its configuration: with a search, or the policy alone."""
    play = evaluate_residency if config.actor.decisions == RESIDENCY else evaluate_network
    return play(network, params, programs, config.actor, search, config.seed)
