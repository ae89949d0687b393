"""The solver `egrl`, and the methods that its paper compares: searches over the homes of a program's tensors."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from ...learner.egrl.config import GraphNetworkConfig, SacConfig
from ...learner.egrl.gradient_learner import GradientLearner
from ..common.task import Task
from ..starts.plans import good_starts
from .play import Player, ReplayBuffer, RewardConfig
from .population import EvolutionConfig, Population, draw
from .tensors import HBM, NUM_FEATURES, NUM_HOMES

_CAPACITY = 100_000
# The greedy method tries all combinations of homes for this many tensors together: nine, as in the paper.
_TOGETHER = 2


@dataclass(frozen=True)
class EgrlConfig:
    """Settings of all methods.

    Attributes:
      reward: reward of a game.
      evolution: settings of the population.
      width, depth: sizes of the graph networks.
      rollouts: games that the gradient policy plays per generation.
      migration: generations between two migrations of the gradient policy into the population.
      updates: gradient updates per game.
      sac: settings of the gradient learner.
    """

    reward: RewardConfig = field(default_factory=RewardConfig)
    evolution: EvolutionConfig = field(default_factory=EvolutionConfig)
    width: int = 32
    depth: int = 3
    rollouts: int = 1
    migration: int = 5
    updates: float = 1.0
    sac: SacConfig = field(default_factory=SacConfig)


def egrl(task: Task) -> None:
    """Evolves and learns policies over the homes of tensors until the budget is spent."""
    good_starts(task, 0.0)  # so that there is a mapping at once
    play_method(task, "egrl")


def play_method(task: Task, method: str, config: EgrlConfig | None = None) -> None:
    """Runs a method in `METHODS` on a task."""
    if len(task.free):
        config = EgrlConfig() if config is None else config
        METHODS[method](Player(task, config.reward), config)


def evolve(player: Player, config: EgrlConfig, gradient: bool) -> None:
    """EGRL: a population plays and breeds, and a gradient policy learns beside it unless `gradient` is off."""
    task, tensors, generator = player.task, player.tensors, player.task.generator
    learner = _make_learner(player, config)
    networks = learner.fresh(Population.num_networks(config.evolution), _seed(task))
    population = Population(networks, tensors.count, NUM_HOMES, config.evolution, generator)
    replay = ReplayBuffer(_CAPACITY, tensors.count)
    generation, owed = 0, 0.0
    while not task.done:
        generation += 1
        task.doing = f"generation {generation}"
        before = task.evaluations
        # One call for all networks, with the gradient policy last.
        posteriors = learner.posteriors(np.concatenate([population.networks, learner.policy[None]]))
        posteriors, followed = posteriors[:-1], posteriors[-1]
        fitness = np.full(len(population), -np.inf)
        for place, homes in enumerate(draw(population.probabilities(posteriors), generator)):
            if task.done:
                return
            fitness[place] = player.play(homes)
            replay.add(homes, fitness[place])
        if gradient:
            _follow(player, followed, config.rollouts, replay)
        spared = population.evolve(fitness, posteriors, generator)
        if not gradient:
            continue
        owed += config.updates * (task.evaluations - before)
        if len(replay) >= config.sac.batch and owed >= 1.0:
            learner.learn(replay.sample(config.sac.batch, generator) for _ in range(int(owed)))
            owed -= int(owed)
        if generation % config.migration == 0:
            population.migrate(learner.policy, fitness, spared)


def policy_gradient(player: Player, config: EgrlConfig) -> None:
    """The soft actor-critic alone: games of its policy and updates in turn."""
    task = player.task
    learner = _make_learner(player, config)
    replay = ReplayBuffer(_CAPACITY, player.tensors.count)
    owed = 0.0
    while not task.done:
        task.doing = f"game {task.evaluations + 1}"
        _follow(player, learner.posteriors(learner.policy[None])[0], 1, replay)
        owed += config.updates
        if len(replay) >= config.sac.batch and owed >= 1.0:
            learner.learn([replay.sample(config.sac.batch, task.generator)])
            owed -= 1.0


def _make_learner(player: Player, config: EgrlConfig) -> GradientLearner:
    tensors = player.tensors
    network = GraphNetworkConfig(NUM_FEATURES, NUM_HOMES, config.width, config.depth)
    return GradientLearner(tensors.features, tensors.edges, network=network, sac=config.sac, seed=_seed(player.task))


def _seed(task: Task) -> int:
    return int(task.generator.integers(2**31))


def _follow(player: Player, probabilities: np.ndarray, games: int, replay: ReplayBuffer) -> None:
    """Plays games of the gradient policy, with probabilities `[K, H]`, into the replay buffer."""
    for _ in range(games):
        if player.task.done:
            return
        homes = draw(probabilities, player.task.generator)
        replay.add(homes, player.play(homes))


def greedy_dp(player: Player, config: EgrlConfig) -> None:
    """Dynamic programming as in the paper: layer by layer, tries all homes of the tensors and keeps the best; repeats.

    A layer is the set of tensors that one instruction accesses first. The method assumes that the best homes of a layer
    do not depend on later layers.
    """
    task, tensors = player.task, player.tensors
    homes = np.full(tensors.count, HBM)
    order = np.argsort(tensors.first, kind="stable")
    layers = [group for t in np.unique(tensors.first) for group in _groups(order[tensors.first[order] == t])]
    best, rounds = -np.inf, 0
    while not task.done:
        rounds += 1
        task.doing = f"round {rounds}"
        for layer in layers:
            kept = homes[layer].copy()
            for choice in np.ndindex(*([NUM_HOMES] * len(layer))):
                if task.done:
                    return
                homes[layer] = choice
                reward = player.play(homes)
                if reward > best:
                    best, kept = reward, homes[layer].copy()
            homes[layer] = kept


def _groups(layer: np.ndarray) -> list[np.ndarray]:
    """Returns the tensors of a layer in groups that are tried together."""
    return [layer[k : k + _TOGETHER] for k in range(0, len(layer), _TOGETHER)]


def random_homes(player: Player, config: EgrlConfig) -> None:
    """Plays homes drawn uniformly."""
    task = player.task
    task.doing = "random homes"
    while not task.done:
        player.play(task.generator.integers(NUM_HOMES, size=player.tensors.count))


Method = Callable[[Player, EgrlConfig], None]

METHODS: dict[str, Method] = {
    "egrl": partial(evolve, gradient=True),
    "ea": partial(evolve, gradient=False),
    "pg": policy_gradient,
    "greedy-dp": greedy_dp,
    "random": random_homes,
}
