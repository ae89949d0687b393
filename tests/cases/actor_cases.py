"""A small game and a small network for the actors' tests."""

import dataclasses

import jax
import numpy as np
from programs import make_cycles, make_program

from mallocmuzero.actors.search.search import SearchConfig
from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.actors.self_play.branch import BranchConfig
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.env.game.moves import NUM_MOVES
from mallocmuzero.env.game.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.learner.networks.network import Network, NetworkConfig, Params
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.segment import Step

NETWORK = Network(NetworkConfig(OBSERVATION_SIZE, NUM_MOVES, GRID, grid_channels=(4,), width=16, projection_width=16))
SEARCH = SearchConfig(simulations=4)


class Recorder:
    """A writer that keeps the steps of each episode, and refuses every `refuse`-th append once."""

    def __init__(self, refuse: int = 0) -> None:
        self.episodes: list[list[Step]] = [[]]
        self._refuse = refuse
        self._calls = 0

    def append(self, step: Step) -> None:
        self._calls += 1
        if self._refuse and self._calls % self._refuse == 0:
            raise ReplayTimeout("full")
        self.episodes[-1].append(step)

    def end_episode(self, cut: bool = False) -> None:
        assert cut == (self.episodes[-1][-1].discount != 0.0)
        self.episodes.append([])

    def flush(self, timeout_s: float) -> None:
        del timeout_s

    def close(self) -> None:
        pass


def make_actor(
    programs: list[Program], games: int = 3, seed: int = 0, refuse: int = 0, config: ActorConfig | None = None
) -> tuple[SelfPlayActor, list[Recorder]]:
    writers = [Recorder(refuse) for _ in range(games)]
    actor = SelfPlayActor(
        programs,
        NETWORK,
        SEARCH,
        config or ActorConfig(games=games, branch=BranchConfig(share=0.0, opponent="first")),
        writers,
        seed,
        6,
    )
    actor.set_parameters(parameters(), 7)
    return actor, writers


def steps(writer: Recorder) -> list[Step]:
    return [step for episode in writer.episodes for step in episode]


def skips(layers: int = 5, name: str = "skips") -> Program:
    """Layers whose outputs are read again in reverse order: more live bytes than fast memory has."""
    down = [(f"down.{i}", 0.05, [f"x.{i}", f"w.{i}"], [f"x.{i + 1}"]) for i in range(layers)]
    up = [
        (f"up.{i}", 0.05, [f"y.{i + 1}" if i < layers - 1 else f"x.{layers}", f"x.{i + 1}"], [f"y.{i}"])
        for i in reversed(range(layers))
    ]
    buffers: dict[str, dict[str, object] | int] = {"x.0": {"size": 32, "input": True}}
    for i in range(layers):
        buffers |= {f"w.{i}": {"size": 16, "input": True}, f"x.{i + 1}": 32, f"y.{i}": {"size": 32, "output": i == 0}}
    program = make_program([*down, *up], buffers, name=name, family=name)
    return make_program([*down, *up], buffers, name=name, family=name, production=all_hbm(program))


def skips_with_cycles() -> Program:
    """`skips` with a cycle table that knows each instruction with nothing and with everything fast."""
    program = skips()
    target = dataclasses.replace(program.target, clock_hz=100.0)
    pairs = {}
    for t, accesses in enumerate(np.diff(program.access_start).tolist()):
        pairs |= {(t, 0): 60 + 7 * t, (t, 2**accesses - 1): 30, (t, 1): 50}
    program = dataclasses.replace(program, target=target, cycles=make_cycles(program, pairs))
    return dataclasses.replace(program, production=all_hbm(program))


def parameters(seed: int = 0) -> Params:
    """Fresh parameters."""
    return NETWORK.init(jax.random.key(seed))
