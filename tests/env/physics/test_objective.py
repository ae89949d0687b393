"""Objectives: which latency counts, relative to what, and what is said where one cannot be had."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, make_cycles, make_mapping, make_program, programs_with_cycles

from mallocmuzero.actors.evaluate.evaluate import REFERENCE_PLAYERS
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.physics.cost import all_hbm_latency, floor_latency
from mallocmuzero.env.physics.objective import OBJECTIVES, better, latencies, make_judge, ratio, resolve
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program, all_hbm


def program(**fields: object) -> Program:
    """`a` writes `p`, `b` reads it. With `p` fast `msa` halves, and `cycles` gain a quarter."""
    made = make_program(
        [("a", 0.0, [], ["p"]), ("b", 0.0, ["p"], ["q"])],
        {"p": 80, "q": {"size": 8, "output": True}},
        dataclasses.replace(TARGET, clock_hz=100.0),
    )
    made = dataclasses.replace(made, cycles=make_cycles(made, {(0, 0): 200, (0, 1): 150, (1, 0): 200, (1, 1): 150}))
    return dataclasses.replace(made, **{"production": all_hbm(made), **fields})  # type: ignore[arg-type]


def fast() -> Mapping:
    return make_mapping(program(), [("a", "p"), ("b", "p")], [("p", 0, 1, 0)])


def test_robust_is_the_worse_of_both_ratios() -> None:
    by_model = latencies(program(), fast())
    assert by_model["msa"] == pytest.approx(0.08 + 0.16)
    assert by_model["cycles"] == pytest.approx(3.0)
    assert ratio(program(), fast(), "msa") == pytest.approx(0.24 / 1.68)
    assert ratio(program(), fast(), "cycles") == pytest.approx(0.75)
    assert ratio(program(), fast(), "robust") == ratio(program(), fast()) == pytest.approx(0.75)
    judge = make_judge(program(), "robust")
    assert judge.production_s == pytest.approx(1.68)
    assert judge.judge(fast()) == pytest.approx(0.75 * 1.68)
    assert better(program(), fast(), all_hbm(program()))
    assert not better(program(), fast(), fast())


def test_what_the_models_disagree_about_is_no_gain_under_robust() -> None:
    cycles = make_cycles(program(), {(0, 0): 200, (0, 1): 300, (1, 0): 200, (1, 1): 200})
    assert better(program(cycles=cycles), fast(), all_hbm(program()), "msa")
    assert not better(program(cycles=cycles), fast(), all_hbm(program()), "cycles")
    assert ratio(program(cycles=cycles), fast(), "robust") == pytest.approx(1.25)


def test_the_default_is_robust_where_cycles_can_price_the_program() -> None:
    assert resolve(program()) == "robust"
    assert resolve(program(cycles=None)) == "msa"
    assert resolve(program(target=TARGET)) == "msa"
    assert MallocGame(program()).judge.objective == "robust"
    assert MallocGame(program(cycles=None)).judge.objective == "msa"
    assert latencies(program(cycles=None), fast())["cycles"] is None


@pytest.mark.parametrize("objective", ["robust", "cycles"])
def test_what_is_asked_for_and_cannot_be_had_is_an_error_that_names_the_mend(objective: str) -> None:
    with pytest.raises(UserError, match=r"'test' has no cycle table.*capture it again.*objective `msa`"):
        MallocGame(program(cycles=None), objective=objective)
    with pytest.raises(UserError, match=r"clock of target 'test' is not known.*objective `msa`"):
        MallocGame(program(target=TARGET), objective=objective)


def test_without_a_production_mapping_the_baseline_is_everything_in_hbm() -> None:
    bare = program(production=None)
    judge = make_judge(bare, "robust")
    assert judge.production_s is None
    assert judge.baseline == {m: all_hbm_latency(bare, bare.target, m) for m in ("msa", "cycles")}
    assert ratio(bare, fast()) == pytest.approx(0.75)


@settings(max_examples=40, deadline=None)
@given(programs_with_cycles(), st.sampled_from(OBJECTIVES), st.sampled_from(sorted(REFERENCE_PLAYERS)))
def test_no_player_undercuts_the_floor(random: Program, objective: str, player: str) -> None:
    import numpy as np

    game = MallocGame(random, objective=objective)
    REFERENCE_PLAYERS[player](game, np.random.default_rng(0))
    assert game.latency_s >= game.judge.floor_s() * (1 - 1e-9) - 1e-12
    floors = {m: floor_latency(random, random.target, m) for m in game.judge.models}
    assert game.judge.floor_s() == game.judge.seconds(floors)
