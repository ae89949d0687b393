"""The cycle table: seen pairs exactly, unseen ones completed within what was seen."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, make_cycles, make_mapping, make_program, programs_with_cycles

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.cost import all_hbm_latency, exact, floor_latency, instruction_times
from mallocmuzero.env.physics.cycles import (
    computation_share,
    fit_savings,
    fit_savings_by_time,
    instruction_cycles,
    marginal_cycles,
)
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.cycle_table import BY_TIME, WITHIN_SEEN, build_table
from mallocmuzero.env.program.mapping import PREFETCH
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.program.target import Target

CLOCKED = dataclasses.replace(TARGET, clock_hz=100.0)


def placement(program: Program, t: int, access_fast: np.ndarray) -> int:
    """The placement of instruction `t`, as the table writes it."""
    rows = access_fast[program.access_start[t] : program.access_start[t + 1]]
    return sum(1 << k for k, fast in enumerate(rows.tolist()) if fast)


@settings(max_examples=150, deadline=None)
@given(programs_with_cycles(), st.integers(0, 2**16))
def test_seen_pairs_are_exact_and_others_may_have_to_stay_within_what_was_seen(program: Program, seed: int) -> None:
    table = program.cycles
    assert table is not None
    rng = np.random.default_rng(seed)
    access_fast = rng.random(program.num_accesses) < rng.random()
    cycles, seen = instruction_cycles(program, access_fast)
    pairs = dict(zip(zip(table.pair_row.tolist(), table.pair_fast, strict=True), table.pair_cycles, strict=True))
    for t, row in enumerate(table.row.tolist()):
        if row < 0:
            assert (cycles[t], seen[t]) == (0.0, True)
            continue
        of_row = [value for (r, _), value in pairs.items() if r == row]
        if table.completion == WITHIN_SEEN:
            assert min(of_row) <= cycles[t] <= max(of_row)
        assert cycles[t] >= 0.0
        known = pairs.get((row, placement(program, t, access_fast)))
        assert seen[t] == (known is not None)
        if known is not None:
            assert cycles[t] == known
    run_s, hbm_s = instruction_times(program, program.target, access_fast, "cycles")
    assert run_s == pytest.approx(cycles / 100.0)
    assert np.all(hbm_s <= run_s)
    assert floor_latency(program, program.target, "cycles") <= run_s @ program.weight * (1 + 1e-12) + 1e-12


@settings(max_examples=60, deadline=None)
@given(programs_with_cycles(), st.data())
def test_what_an_access_saves_is_the_difference_it_makes(program: Program, data: st.DataObject) -> None:
    if not program.num_accesses:
        return
    access = data.draw(st.integers(0, program.num_accesses - 1))
    t = program.access_instruction[access]
    alone, last = marginal_cycles(program)
    for others, saved in ((np.zeros(program.num_accesses, bool), alone), (_allowed(program), last)):
        near, far = others.copy(), others.copy()
        near[access], far[access] = True, False
        difference = instruction_cycles(program, far)[0][t] - instruction_cycles(program, near)[0][t]
        assert saved[access] == pytest.approx(difference, abs=1e-6)


def _allowed(program: Program) -> np.ndarray:
    return program.access_allowed.copy()


def test_completion_shares_a_saving_by_bytes_and_interpolates() -> None:
    nothing, both, first = [False, False], [True, True], [True, False]
    base, saving = fit_savings(np.array([30.0, 10.0]), np.array([nothing, both]), np.array([100.0, 60.0]))
    assert base == 100.0
    assert saving == pytest.approx([30.0, 10.0], rel=0.01)
    _, saving = fit_savings(np.array([30.0, 10.0]), np.array([nothing, first, both]), np.array([100.0, 95.0, 60.0]))
    assert saving == pytest.approx([5.0, 35.0], rel=0.05)
    assert fit_savings(np.array([30.0]), np.array([[False]]), np.array([7.0]))[1].tolist() == [0.0]


def test_completion_by_time_expects_what_bytes_take_in_hbm() -> None:
    hbm_cycles = np.array([300.0, 100.0])
    nothing, both, first = [False, False], [True, True], [True, False]
    # One pair is known: nothing is fast, or everything.
    base, saving = fit_savings_by_time(hbm_cycles, np.array([nothing]), np.array([1000.0]))
    assert base == pytest.approx(1000.0)
    assert saving == pytest.approx([300.0, 100.0])
    base, saving = fit_savings_by_time(hbm_cycles, np.array([both]), np.array([600.0]))
    assert base - saving.sum() == pytest.approx(600.0)
    assert saving == pytest.approx([300.0, 100.0])
    # Pairs correct it, by as little as explains them.
    base, saving = fit_savings_by_time(hbm_cycles, np.array([nothing, first]), np.array([1000.0, 950.0]))
    assert base == pytest.approx(1000.0, rel=0.01)
    assert saving == pytest.approx([50.0, 100.0], rel=0.05)


@pytest.mark.parametrize(("completion", "least"), [(WITHIN_SEEN, 100.0), (BY_TIME, 40.0)])
def test_only_completion_by_time_goes_below_what_was_seen(completion: str, least: float) -> None:
    # One instruction that computes for 40 cycles, of which one compilation has told: nothing was fast.
    target = dataclasses.replace(TARGET, hbm_bandwidth=1.0, clock_hz=1.0)
    program = make_program(
        [("make", 40.0, ["x"], ["a"])], {"x": {"size": 8, "input": True}, "a": {"size": 80, "output": True}}, target
    )
    table = build_table(np.array([0], np.int32), {(0, 0): 100}, completion=completion)
    program = dataclasses.replace(program, cycles=table)
    everything = np.ones(program.num_accesses, bool)
    cycles, seen = instruction_cycles(program, everything)
    assert cycles.tolist() == [least]
    assert seen.tolist() == [False]
    assert instruction_cycles(program, ~everything)[0].tolist() == [100.0]


def test_the_code_generator_may_have_less_computation_than_msa() -> None:
    target = dataclasses.replace(TARGET, hbm_bandwidth=1e9, clock_hz=1.0)
    steps = [("a", 10_000.0, ["x"], ["b"]), ("c", 20_000.0, ["b"], ["d"]), ("e", 100.0, ["d"], ["out"])]
    program = make_program(
        steps, {"x": {"size": 8, "input": True}, "b": 8, "d": 8, "out": {"size": 8, "output": True}}, target
    )
    rows = np.array([0, 1, 2], np.int32)
    # The shortest is too short to tell.
    halves = build_table(rows, {(0, 0): 5000, (1, 0): 19_000, (1, 1): 10_000, (2, 0): 1})
    assert computation_share(program, halves) == 0.5
    assert computation_share(program, build_table(rows, {(0, 0): 12_000, (1, 0): 30_000, (2, 0): 1})) == 1.0
    short = build_table(np.array([-1, -1, 0], np.int32), {(0, 0): 1})
    assert computation_share(program, short) == 1.0


def copy_like() -> Program:
    """`copy` is fast only if both sides are, and slower than at first if its result alone is."""
    program = make_program(
        [("make", 1.0, ["x"], ["a"]), ("copy", 0.0, ["a"], ["b"]), ("use", 1.0, ["b"], ["out"])],
        {"x": {"size": 8, "input": True}, "a": 40, "b": 40, "out": {"size": 8, "output": True}},
        CLOCKED,
    )
    pairs = {(0, 0): 100, (0, 2): 90, (1, 0): 200, (1, 1): 200, (1, 2): 300, (1, 3): 10, (2, 0): 50, (2, 1): 40}
    return dataclasses.replace(program, cycles=make_cycles(program, pairs))


def test_latency_by_hand() -> None:
    program = copy_like()
    assert all_hbm_latency(program, program.target, "cycles") == pytest.approx(3.5)
    assert floor_latency(program, program.target, "cycles") == pytest.approx(0.9 + 0.1 + 0.4)
    both = make_mapping(
        program,
        [("make", "a"), ("copy", "a"), ("copy", "b"), ("use", "b")],
        [("a", 0, 1, 0), ("b", 1, 2, 40)],
    )
    assert simulate(program, program.target, both, "cycles").latency_s == pytest.approx(1.4)
    result_only = make_mapping(program, [("copy", "b"), ("use", "b")], [("b", 1, 2, 0)])
    assert simulate(program, program.target, result_only, "cycles").latency_s == pytest.approx(1.0 + 3.0 + 0.4)
    assert exact(program, both) == 1.0


def test_hbm_is_busy_for_the_bytes_that_come_from_it_but_no_longer_than_the_instruction() -> None:
    program = copy_like()
    _, hbm_s = instruction_times(program, program.target, np.zeros(program.num_accesses, bool), "cycles")
    assert hbm_s.tolist() == pytest.approx([0.48, 0.8, 0.48])
    short = dataclasses.replace(program, cycles=make_cycles(program, {(0, 0): 1, (1, 0): 1, (2, 0): 1}))
    run_s, hbm_s = instruction_times(short, short.target, np.zeros(short.num_accesses, bool), "cycles")
    assert hbm_s.tolist() == run_s.tolist() == pytest.approx([0.01] * 3)


def test_a_replaced_instruction_costs_nothing_under_cycles() -> None:
    program = make_program(
        [("make", 1.0, [], ["a"]), ("copy", 0.0, ["w"], ["b"]), ("use", 1.0, ["b"], ["out"])],
        {"w": {"size": 40, "input": True}, "a": 8, "b": 40, "out": {"size": 8, "output": True}},
        CLOCKED,
    )
    program = dataclasses.replace(program, cycles=make_cycles(program, {(0, 0): 100, (1, 0): 80, (2, 0): 50}))
    mapping = make_mapping(
        program,
        [("use", "b")],
        [("b", 0, 2, 0)],
        [{"buffer": "b", "direction": PREFETCH, "start": -1, "end": 2, "source": "w", "replaces": "copy"}],
    )
    assert simulate(program, program.target, mapping, "cycles").latency_s == pytest.approx(1.0 + 0.5)
    assert exact(program, mapping) == pytest.approx(1.0 / 1.5), "`use` was never seen with its operand fast"


def test_without_a_table_or_a_clock_cycles_are_refused_with_the_mend() -> None:
    bare = dataclasses.replace(copy_like(), cycles=None)
    with pytest.raises(UserError, match=r"has no cycle table.*capture it again.*`msa`"):
        simulate(bare, bare.target, all_hbm(bare), "cycles")
    still = copy_like()
    stopped = Target(**{**vars(still.target), "clock_hz": 0.0})
    with pytest.raises(UserError, match="the clock of target 'test' is not known"):
        simulate(still, stopped, all_hbm(still), "cycles")


def test_instructions_with_more_accesses_than_bits_in_a_word() -> None:
    names = [f"w{number}" for number in range(100)]
    program = make_program(
        [("tuple", 0.0, names, ["out"])],
        {**{name: {"size": 8, "input": True} for name in names}, "out": {"size": 8, "output": True}},
        CLOCKED,
    )
    far = 1 << 90
    program = dataclasses.replace(program, cycles=make_cycles(program, {(0, 0): 100, (0, far): 60, (0, far | 1): 55}))
    fast = np.zeros(program.num_accesses, bool)
    fast[90] = True
    assert instruction_cycles(program, fast)[0][0] == 60
    fast[91] = True
    cycles, seen = instruction_cycles(program, fast)
    assert not seen[0]
    assert cycles[0] == pytest.approx(60.0 - 100.0 / 101, abs=0.2), "the access beside it saves its share of the bytes"
