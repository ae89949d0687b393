"""The solver `milp`: its models, and the ways from their solutions to mappings."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import make_program, programs

from mallocmuzero.env.bounds.construct import constructed
from mallocmuzero.env.bounds.mapping_builder import MappingBuilder
from mallocmuzero.env.bounds.relaxation import SCOPES, build_relaxation
from mallocmuzero.env.bounds.solve import solve_integer, solve_relaxation
from mallocmuzero.env.game.moves import COPY, DROP
from mallocmuzero.env.packing.best_fit import best_fit
from mallocmuzero.env.packing.repack import packing_of
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget, Status
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.milp import solver as milp
from mallocmuzero.solvers.milp.rounding import cross, rounded, shares_of
from mallocmuzero.solvers.solve import solve


@settings(max_examples=20, deadline=None)
@given(programs(), st.sampled_from(["msa", "cycles", "robust"]))
def test_models_for_mappings_promise_no_more_than_the_bound(program, objective: str) -> None:
    judge = make_judge(program, objective if program.cycles is not None else "msa")
    if not judge.judge(all_hbm(program)) > 0:
        return
    values = {}
    for name, changes in {"bound": {}, "in flight": {"in_flight": True}, "slow": {"copy_rate": 0.5}}.items():
        linear, _, _ = build_relaxation(judge, replace(SCOPES["unreplaced"], **changes), None, 400)
        values[name] = solve_relaxation(linear, 10.0).bound
    assert values["in flight"] >= values["bound"] - 1e-4
    assert values["slow"] >= values["bound"] - 1e-4


def test_reaches_what_is_known_to_be_near_the_best() -> None:
    program = load("tiny")
    solution = solve(program, "milp", objective="msa", budget=Budget(None, 400))
    judge = make_judge(program, "msa")
    assert judge.production_s is not None
    # The bound is at 89.8 % of production, the best mapping known at 90.5 %.
    assert 0.898 < solution.judged_s / judge.production_s < 0.915
    assert verify(program, program.target, solution.mapping) == []


def test_prefetches_one_input_across_programs_at_most() -> None:
    # More would be free to the cost models: without a limit it takes 34 here.
    program = load("dlrm-b2048")
    solution = solve(program, "milp", objective="msa", budget=Budget(None, 20))
    assert np.count_nonzero(solution.mapping.copies[:, 1] == CROSS_PROGRAM) <= 1


def test_thresholds_round_as_they_say() -> None:
    task = Task(load("tiny"), None, "msa", Budget(None, 100), 0)
    linear, placement, _ = build_relaxation(task.game.judge, SCOPES["unreplaced"], None, 400)
    values = solve_integer(linear, 20.0).values
    assert values is not None
    shares = shares_of(task, placement, values)
    modelled = np.array([column >= 0 for column in shares.fast])
    np.testing.assert_array_equal(rounded(task, shares, 0.5) == DROP, modelled & (shares.fast < 0.5))
    for access, touch in enumerate(
        zip(task.game.program.access_instruction.tolist(), task.game.program.access_buffer.tolist(), strict=True)
    ):
        if touch in placement.fast:
            assert shares.fast[access] == values[placement.fast[touch]]
    nothing, everything = rounded(task, shares, 1.1), rounded(task, shares, -0.5)
    assert (nothing[modelled] == DROP).all()
    assert (everything[modelled] != DROP).all()


def test_crossings_only_better_what_is_known() -> None:
    task = Task(load("tiny"), None, "msa", Budget(None, 10_000), 0)
    linear, placement, _ = build_relaxation(task.game.judge, SCOPES["unreplaced"], None, 400)
    values = solve_relaxation(linear, 20.0).values
    assert values is not None
    pool = [shares_of(task, placement, values)]
    first = task.play(np.full(len(task.tables.access), COPY, np.int8))
    reached = [first]
    for _ in range(300):
        cross(task, pool)
        reached.append(task.best_s)
    assert reached == sorted(reached, reverse=True)
    assert reached[-1] < first
    assert task.evaluations == 301


def test_residencies_are_dropped_until_the_rest_packs() -> None:
    judge = make_judge(load("resnet18-train-b64"), "msa")
    program, target = judge.program, judge.target
    linear, placement, _ = build_relaxation(judge, SCOPES["unreplaced"], None, 400)
    values = solve_relaxation(linear, 20.0).values
    assert values is not None
    builder = MappingBuilder(program, target, placement, values, share=0.2, minor=True)
    builder.fit(1.0)
    full = builder.mapping()
    assert best_fit(packing_of(program, full, target)[0]).peak > target.fast_bytes  # it fits by load, not by offsets
    mapping = builder.shed()
    assert mapping is not None
    assert verify(program, target, mapping) == []
    assert 0.8 * len(full.residencies) < len(mapping.residencies) < len(full.residencies)
    assert judge.judge(mapping) < judge.judge(all_hbm(program))


@settings(max_examples=20, deadline=None)
@given(programs(), st.integers(0, 2**31))
def test_every_constructed_mapping_verifies(program, seed: int) -> None:
    judge = make_judge(program, "msa")
    if not judge.judge(all_hbm(program)) > 0:
        return
    linear, placement, _ = build_relaxation(judge, SCOPES["unreplaced"], 0.0, 400)
    values = np.random.default_rng(seed).uniform(0.0, 1.0, len(linear.cost))
    for found in constructed(judge, placement, values, None, 500):
        assert verify(program, judge.target, found) == []


def test_a_program_that_takes_no_time_is_left_alone() -> None:
    program = make_program([("nothing", 0.0, [], ["a"])], {"a": 8})
    program = replace(program, access_bytes=np.zeros(1), bytes_total=np.zeros(1))
    assert solve(program, "milp", budget=Budget(None, 10)).judged_s == 0.0


@pytest.mark.parametrize("stage", ["building", "relaxation", "integer", "crossing"])
def test_can_be_ended_at_any_stage(stage: str) -> None:
    program, seen = load("resnet50-b32-v4"), []

    def progress(status: Status) -> None:
        seen.append(status)
        if stage in status.doing:
            raise KeyboardInterrupt

    solution = solve(program, "milp", objective="msa", budget=Budget(60.0), progress=progress)
    assert solution.stopped
    assert stage in seen[-1].doing
    assert solution.judged_s <= seen[-1].best_s * (1 + 1e-12)
    assert solution.seconds < 30.0
    assert verify(program, program.target, solution.mapping) == []


def test_every_pass_is_of_mappings_the_ways_can_make() -> None:
    for way in milp.PASSES:
        assert not way.rules.replacements
        assert 0 < way.rules.capacity_share <= 1
        assert 0 < way.rules.copy_rate <= 1
