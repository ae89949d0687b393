"""Evaluation of an agent that plays the residency game: the policy alone, and with search."""

import time
from collections.abc import Iterable

import jax
import numpy as np

from ...env.program.program import Program
from ...env.residency.game import Round, Sizes
from ...env.residency.position import Position
from ...env.residency.seat import Seat
from ...learner.networks.network import Network, Params
from ...solvers.learned.proposals import Proposals
from ...solvers.learned.score import Score, make_score
from ...solvers.learned.solver import POLICY, POLICY_GAMES
from ..search.search import SearchConfig, search
from ..self_play.config import ActorConfig
from ..self_play.residency_config import EXACT
from ..self_play.residency_programs import ResidencyProgram
from .evaluate import GREEDY_POLICY, SEARCH, Evaluation, evaluate_mapping

# Rounds of an evaluation with search.
SEARCH_ROUNDS = 8


def evaluate_residency(
    network: Network,
    params: Params,
    programs: Iterable[Program],
    config: ActorConfig,
    search_config: SearchConfig | None,
    seed: int = 0,
) -> list[Evaluation]:
    """Plays each program once, from its best starting plan, without exploration.

    Args:
      network, params: the agent.
      programs: the programs, one after another.
      config: the rules of the games.
      search_config: the search, whose exploration noise is switched off: it plays rounds of the likeliest changes. None
        to try changes by the network's scores alone, as the solver `policy` does.
      seed: of the search.

    Returns:
      One evaluation per program, labelled `muzero-policy` or `muzero-search`; `seconds` is the time that it took.
    """
    score = make_score(jax.device_get(params))
    found = []
    for program in programs:
        begin = time.perf_counter()
        context = ResidencyProgram(program, config)
        if search_config is None:
            solver, simulations = GREEDY_POLICY, 0
            task, position = context.task, Position(context.task.plan_game, context.starts[0][1], context.changes)
            Proposals(task, position, score, POLICY).play(POLICY_GAMES)
        else:
            quiet = search_config.quiet()
            solver, simulations = SEARCH, quiet.simulations
            _rounds(context, score, network, params, config, quiet, seed)
        mapping = context.task.mapping()
        assert mapping is not None
        mapping.origin.update({"solver": solver, "simulations": simulations, "seed": seed})
        seconds = time.perf_counter() - begin
        found.append(evaluate_mapping(context.task.game.judge, mapping, solver, seconds, simulations))
    return found


def _rounds(
    context: ResidencyProgram,
    score: Score,
    network: Network,
    params: Params,
    config: ActorConfig,
    search_config: SearchConfig,
    seed: int,
) -> None:
    """Plays rounds of the likeliest changes, each move searched; a change that has been offered comes last again."""
    task, settings = context.task, config.residency
    sizes = Sizes(settings.candidates)
    position = Position(task.plan_game, context.starts[0][1], context.changes)
    seat = Seat(position, settings.candidates)
    changes = position.changes
    offered = np.zeros(len(changes.stay))
    observation = np.zeros((1, sizes.observation), np.float32)
    root = jax.random.key(seed)
    move = 0
    for _ in range(SEARCH_ROUNDS):
        scores = score(seat.observer.observe(), changes.stay, changes.placement)
        likeliest = np.argsort(-(scores - 1e3 * offered), kind="stable")[: settings.candidates]
        offered[likeliest] += 1
        game = Round(seat, likeliest.astype(np.int64), settings.moves, seen=True)
        while not game.done:
            game.observe(observation[0])
            outcomes = game.outcomes[None].astype(np.float32) if settings.root == EXACT else None
            key = jax.random.fold_in(root, move)
            found = search(network, params, key, observation, game.legal[None].copy(), search_config, outcomes)
            game.play(int(found.action[0]))
            move += 1
        task.offer(position.plan, position.seconds)
