"""Reference players: what an agent has to beat before anything else."""

from collections.abc import Callable

import numpy as np

from ...env.game.game import MallocGame
from ...solvers.common.greedy_rules import play_greedy

Player = Callable[[MallocGame, np.random.Generator], None]


def play_random(game: MallocGame, generator: np.random.Generator) -> None:
    """Plays legal moves at random, all equally likely."""
    game.reset()
    while not game.done:
        game.step(int(generator.choice(np.flatnonzero(game.legal))))


def play_best_rule(game: MallocGame, generator: np.random.Generator) -> None:
    """Plays the best of the greedy player's rules."""
    del generator
    play_greedy(game)


PLAYERS: dict[str, Player] = {"random": play_random, "greedy": play_best_rule}
