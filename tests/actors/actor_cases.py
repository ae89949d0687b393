"""A small game and a small network for the actors' tests."""

import dataclasses

import jax
import numpy as np
from mallocmuzero.actors.search import SearchConfig
from mallocmuzero.env.game import NUM_MOVES
from mallocmuzero.env.mapping import all_hbm
from mallocmuzero.env.observation import GRID, OBSERVATION_SIZE
from mallocmuzero.env.program import Program
from mallocmuzero.learner.networks import Network, NetworkConfig, Params
from programs import make_cycles, make_program

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
