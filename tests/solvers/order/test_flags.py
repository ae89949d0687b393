"""Flags that a search over orders chooses: what they mean, and which of them a program can have."""

from dataclasses import replace

import numpy as np
import pytest

from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.options import FLAG_NAMES, flag_options
from mallocmuzero.solvers.order.flags import VALUES, Flags, neighbours
from mallocmuzero.solvers.xla.options import from_flags, production


def test_the_first_values_are_the_compilers() -> None:
    assert Flags(**{name: values[0] for name, values in VALUES.items()}) == Flags()
    for target in GENERATIONS.values():
        assert Flags().options(target) == production(target)


@pytest.mark.parametrize("name", VALUES)
def test_every_value_means_something(name: str) -> None:
    target = GENERATIONS["v5e"]
    meant = {replace(Flags(), **{name: value}).options(target) for value in VALUES[name]}
    assert len(meant) == len(VALUES[name])


def test_flags_survive_as_numbers() -> None:
    flags = Flags(*(values[-1] for values in VALUES.values()))
    again = Flags.from_array(flags.array())
    assert again == flags
    assert [type(value) for value in vars(again).values()] == [type(value) for value in vars(flags).values()]
    np.testing.assert_array_equal(again.array(), flags.array())


def test_neighbours_differ_in_one_flag() -> None:
    program = load("gru-train-b32-s64")
    flags = Flags(bandwidth=0.5, idle=0.25)
    found = neighbours(flags, program, program.target)
    assert len(set(found)) == len(found) == sum(len(values) - 1 for values in VALUES.values())
    for other in found:
        assert sum(vars(other)[name] != vars(flags)[name] for name in VALUES) == 1


def test_flags_without_a_meaning_are_no_neighbours() -> None:
    tiny = load("tiny")
    assert not len(tiny.loop_trips)
    for target in ("v4", "v5p"):
        changed = {
            name
            for other in neighbours(Flags(), tiny, GENERATIONS[target])
            for name in VALUES
            if vars(other)[name] != vars(Flags())[name]
        }
        assert "trips" not in changed  # no loops
        assert ("loop_optimiser" in changed) == (target == "v5p")  # off on v4 by default
        assert ("slices" in changed) == (target == "v4")  # v5p makes none


@pytest.mark.parametrize("target", ["v4", "v5e", "v5p", "v6e"])
def test_options_of_flags_mean_the_flags(target: str) -> None:
    """What is told the compiler, and what our decoder goes by."""
    draw = np.random.default_rng(0)
    for _ in range(50):
        flags = Flags(*(values[int(draw.integers(len(values)))] for values in VALUES.values()))
        told = flag_options(flags, GENERATIONS[target])
        assert from_flags(GENERATIONS[target], told) == flags.options(GENERATIONS[target])
        assert set(told) <= set(FLAG_NAMES)
