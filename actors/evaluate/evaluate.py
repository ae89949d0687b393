"""Evaluation: plays programs with an agent, beside reference players; every mapping is verified and simulated."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import jax
import numpy as np

from ...env.game.game import MallocGame
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...env.physics.cost import CYCLES, available_models, exact
from ...env.physics.objective import Judge, latencies
from ...env.program.mapping import Mapping
from ...env.program.program import Program, all_hbm
from ...env.verifier.verify import verify
from ...learner.networks.network import Network, Params
from ...solvers.common.greedy_rules import play_greedy
from ..search.search import SearchConfig, greedy, search
from ..self_play.config import ActorConfig

GREEDY_POLICY = "muzero-policy"
SEARCH = "muzero-search"
# XLA under the best of a grid of its flags.
BEST_FLAGS = "best-flags"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One mapping of one program.

    Attributes:
      program, family: the program.
      solver: what made the mapping.
      model: the objective: `msa` and `cycles` are cost models, `robust` is the worse of both.
      latency_us: simulated microseconds in the steady state, by the objective (`objective.Judge`): under `robust` the
        worse ratio to production, times production's `msa` latency.
      production_us: the same of XLA's own mapping, or None.
      verified: `verify` found no violation.
      seconds: time that the solver took; 0 for a given mapping.
      mapping: the mapping.
      simulations: network evaluations per move; 0 without search.
      model_us: simulated microseconds in the steady state, by cost model; None where a model cannot price the program.
      exact: share of the `cycles` latency that was looked up rather than estimated, or None.
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


# Plays a game to its end.
ReferencePlayer = Callable[[MallocGame, np.random.Generator], None]


def play_random(game: MallocGame, generator: np.random.Generator) -> None:
    """Plays legal moves at random, all equally likely."""
    game.reset()
    while not game.done:
        game.step(int(generator.choice(np.flatnonzero(game.legal))))


def play_best_rule(game: MallocGame, generator: np.random.Generator) -> None:
    """Plays the best of the greedy player's rules."""
    del generator
    play_greedy(game)


REFERENCE_PLAYERS: dict[str, ReferencePlayer] = {"random": play_random, "greedy": play_best_rule}


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
    """Evaluates all-in-HBM, the reference players, XLA's production mapping and that of the best of XLA's flags."""
    judge = config.judge(program)
    evaluations = [evaluate_mapping(judge, all_hbm(program), "all-hbm")]
    for name, play in REFERENCE_PLAYERS.items():
        game, begin = config.game(program), time.perf_counter()
        play(game, np.random.default_rng(seed))
        seconds = time.perf_counter() - begin
        evaluations.append(evaluate_mapping(judge, game.mapping({"solver": name}), name, seconds))
    if program.production is not None:
        evaluations.append(evaluate_mapping(judge, program.production, "production"))
    tuned = judge.tuned_mapping()
    if tuned is not None:
        evaluations.append(evaluate_mapping(judge, tuned, BEST_FLAGS))
    return evaluations


def evaluate_network(
    network: Network,
    params: Params,
    programs: Iterable[Program],
    config: ActorConfig,
    search_config: SearchConfig | None,
    seed: int = 0,
) -> list[Evaluation]:
    """Plays one game per program, without exploration.

    Args:
      network, params: the agent.
      programs: the programs; all games move together, one batch per move.
      config: the rules of the games.
      search_config: the search, whose exploration noise is switched off; None to play the policy's first choice.
      seed: of the search.

    Returns:
      One evaluation per program, labelled `muzero-policy` or `muzero-search`; `seconds` is the time of the whole batch.
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
    """Plays games to their ends, one batch per move. `choose` takes observations, legal moves and the move's number."""
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
