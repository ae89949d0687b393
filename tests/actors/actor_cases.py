"""A small game and a small network for the actors' tests."""

import jax
from mallocmuzero.actors.search import SearchConfig
from mallocmuzero.env.game import NUM_MOVES
from mallocmuzero.env.mapping import all_hbm
from mallocmuzero.env.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.env.program import Program
from mallocmuzero.learner.networks import Network, NetworkConfig, Params
from programs import make_program

NETWORK = Network(NetworkConfig(OBSERVATION_SIZE, NUM_MOVES, GRID, grid_channels=(4,), width=16, projection_width=16))
SEARCH = SearchConfig(simulations=4)


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


def parameters(seed: int = 0) -> Params:
    """Fresh parameters."""
    return NETWORK.init(jax.random.key(seed))
