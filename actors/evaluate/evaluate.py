"""Evaluation: every solver's mapping of a program, verified and simulated, side by side."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import jax
import numpy as np

from ...env.game.game import NUM_MOVES, MallocGame
from ...env.game.observation import OBSERVATION_SIZE
from ...env.physics.cost import CYCLES, available_models, exact
from ...env.physics.objective import Judge, latencies
from ...env.program.mapping import Mapping
from ...env.program.program import Program, all_hbm
from ...env.verifier.verify import verify
from ...learner.networks.network import Network, Params
from ..search.search import SearchConfig, greedy, search
from ..self_play.config import ActorConfig
from .players import PLAYERS

GREEDY_POLICY = "muzero-policy"
SEARCH = "muzero-search"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What one solver made of one program.

    Attributes:
      program, family: the program.
      solver: who made the mapping.
      model: the objective: `msa` and `cycles` are cost models, `robust` is the worse of both.
      latency_us: simulated microseconds, steady, as the objective counts them (`objective.Judge`): under `robust` the
        worse ratio to production, times production's `msa` latency.
      production_us: those of XLA's own mapping, or None.
      model_us: simulated microseconds, steady, by cost model; None where a model cannot price the program.
      exact: share of the `cycles` latency that was looked up and not completed, or None.
      verified: `verify` found nothing wrong.
      seconds: how long the solver took; 0 for mappings that were given.
      mapping: the mapping.
      simulations: network evaluations per move; 0 without search.
    """

    program: str
    family: str
    solver: str
    model: str
    latency_us: float
    production_us: float | None
    verified: bool
    seconds: float
    mapping: Mapping
    simulations: int = 0
    model_us: dict[str, float | None] = field(default_factory=dict)
    exact: float | None = None


def evaluate_mapping(
    judge: Judge, mapping: Mapping, solver: str, seconds: float = 0.0, simulations: int = 0
) -> Evaluation:
    """Verifies and simulates a mapping of the judge's program."""
    program, production_s = judge.program, judge.production_s
    by_model = latencies(program, mapping)
    return Evaluation(
        program=program.name,
        family=program.family,
        solver=solver,
        model=judge.objective,
        latency_us=judge.judge(mapping) * 1e6,
        production_us=None if production_s is None else production_s * 1e6,
        verified=not verify(program, program.target, mapping),
        seconds=seconds,
        mapping=mapping,
        simulations=simulations,
        model_us={model: None if s is None else s * 1e6 for model, s in by_model.items()},
        exact=exact(program, mapping) if CYCLES in available_models(program) else None,
    )


def evaluate_references(program: Program, config: ActorConfig, seed: int) -> list[Evaluation]:
    """Evaluates all-in-HBM, the reference players and XLA's production mapping."""
    judge = config.judge(program)
    evaluations = [evaluate_mapping(judge, all_hbm(program), "all-hbm")]
    for name, play in PLAYERS.items():
        game, begin = config.game(program), time.perf_counter()
        play(game, np.random.default_rng(seed))
        seconds = time.perf_counter() - begin
        evaluations.append(evaluate_mapping(judge, game.mapping({"solver": name}), name, seconds))
    if program.production is not None:
        evaluations.append(evaluate_mapping(judge, program.production, "production"))
    return evaluations


def evaluate_network(
    network: Network,
    params: Params,
    programs: Iterable[Program],
    config: ActorConfig,
    search_config: SearchConfig | None,
    seed: int = 0,
) -> list[Evaluation]:
    """Plays one game per program, without exploring.

    Args:
      network, params: the agent.
      programs: what to play; all games move together, one batch per move.
      config: how games are set up.
      search_config: how to search (its exploring noise is switched off), or None for the policy's first choice.
      seed: of the search; without noise it hardly matters.

    Returns:
      One evaluation per program, labelled `muzero-policy` or `muzero-search`. `seconds` is the time of the whole batch.
    """
    programs = list(programs)
    games = [config.game(program) for program in programs]
    begin = time.perf_counter()
    if search_config is None:
        solver, simulations = GREEDY_POLICY, 0

        def choose(observations: np.ndarray, legal: np.ndarray, move: int) -> jax.Array:
            return greedy(network, params, observations, legal)
    else:
        quiet = search_config.quiet()
        solver, simulations = SEARCH, quiet.simulations
        root = jax.random.key(seed)

        def choose(observations: np.ndarray, legal: np.ndarray, move: int) -> jax.Array:
            return search(network, params, jax.random.fold_in(root, move), observations, legal, quiet).action

    _play_together(games, choose)
    seconds = time.perf_counter() - begin
    origin: dict[str, object] = {"solver": solver, "simulations": simulations, "seed": seed}
    return [evaluate_mapping(game.judge, game.mapping(origin), solver, seconds, simulations) for game in games]


def _play_together(games: list[MallocGame], choose: Callable[[np.ndarray, np.ndarray, int], jax.Array]) -> None:
    observations = np.zeros((len(games), OBSERVATION_SIZE), np.float32)
    legal = np.ones((len(games), NUM_MOVES), np.bool_)
    move = 0
    while not all(game.done for game in games):
        for row, game in enumerate(games):
            game.observe(observations[row])
            legal[row] = game.legal if not game.done else True
        actions = np.asarray(choose(observations, legal, move))
        for row, game in enumerate(games):
            if not game.done:
                game.step(int(actions[row]))
        move += 1
