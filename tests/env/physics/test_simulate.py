"""The latency of a mapping, against hand-computed schedules."""

import numpy as np
import pytest
from programs import make_mapping, make_program

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.cost import all_hbm_latency, floor_latency, instruction_times
from mallocmuzero.env.physics.simulator import Timeline, simulate
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import Program, all_hbm


def program() -> Program:
    """HBM moves 100 B/s, fast memory 1000 B/s. `a` leaves 0.9 s of HBM time, `b` 0.8 s, `c` nothing."""
    return make_program(
        [("a", 1.0, [], ["p"]), ("b", 1.0, [], ["q"]), ("c", 0.0, ["w", "p"], ["r"])],
        {"p": 10, "q": 20, "r": {"size": 10, "output": True}, "w": {"size": 120, "input": True}},
    )


def copy(buffer: str, direction: int, start: int, end: int) -> dict[str, object]:
    return {"buffer": buffer, "direction": direction, "start": start, "end": end}


def run(mapping: Mapping, start: str = "steady") -> Timeline:
    return simulate(program(), program().target, mapping, start=start)


def test_all_in_hbm_is_the_sum_of_instructions() -> None:
    timeline = run(all_hbm(program()))
    assert timeline.run_s.tolist() == pytest.approx([1.0, 1.0, 1.4])
    assert timeline.latency_s == pytest.approx(3.4)
    assert timeline.begin_s.tolist() == pytest.approx([0.0, 1.0, 2.0])
    assert all_hbm_latency(program(), program().target) == timeline.latency_s


def test_the_floor_serves_everything_from_fast_memory() -> None:
    assert floor_latency(program(), program().target) == pytest.approx(1.0 + 1.0 + 140 / 1000)
    # An instruction that reads a buffer twice, once always in HBM, may read it in fast memory too. One that writes it
    # over what it reads has all of it in HBM.
    for results, seconds in ((["y"], 10 / 100 + 10 / 1000 + 10 / 1000), (["x"], 30 / 100)):
        buffers = {"x": {"size": 10, "input": True}, **dict.fromkeys(set(results) - {"x"}, 10)}
        both = make_program([("a", 0.0, ["x", "x"], results)], buffers, hbm_accesses=np.array([True, False, False]))
        assert floor_latency(both, both.target) == pytest.approx(seconds)
    forbidden = make_program(
        [("a", 0.0, ["x"], ["y"])], {"x": {"size": 10, "fast_allowed": False, "input": True}, "y": 10}
    )
    assert floor_latency(forbidden, forbidden.target) == pytest.approx(10 / 100 + 10 / 1000)


def test_a_prefetch_moves_in_idle_time_and_its_reader_waits_for_the_rest() -> None:
    hidden = run(make_mapping(program(), [("c", "w")], [("w", 0, 2, 0)], [copy("w", PREFETCH, -1, 2)]))
    assert hidden.wait_s.tolist() == pytest.approx([0.0] * 4)
    assert hidden.latency_s == pytest.approx(2.0 + 20 / 100 + 120 / 1000)
    # After `a` only 0.8 s are left for 1.2 s of copy.
    late = run(make_mapping(program(), [("c", "w")], [("w", 1, 2, 0)], [copy("w", PREFETCH, 0, 2)]))
    assert late.wait_s.tolist() == pytest.approx([0.0, 0.0, 0.4, 0.0])
    assert late.waited_s == pytest.approx(0.4)
    assert late.latency_s == pytest.approx(hidden.latency_s + 0.4)
    assert late.copy_begin_s.tolist() == pytest.approx([1.2]), "`b` keeps HBM busy for 0.2 s first"
    assert late.copy_end_s.tolist() == pytest.approx([2.4])


def test_both_directions_share_the_idle_time_equally() -> None:
    mapping = make_mapping(
        program(),
        [("c", "w"), ("a", "p"), ("c", "p")],
        [("w", 0, 2, 0), ("p", 0, 2, 120)],
        [copy("w", PREFETCH, -1, 2), copy("p", WRITE_BACK, 0, 3)],
    )
    # `a`: 1.0 s idle for the prefetch. `b`: 0.8 s idle, 0.1 s of it for the write-back while the prefetch gets as much.
    timeline = run(mapping)
    assert timeline.waited_s == 0.0
    prefetch, write_back = timeline.copy_end_s
    assert write_back == pytest.approx(1.0 + 0.2 + 0.2)
    assert prefetch == pytest.approx(1.0 + 0.2 + 0.3)


def test_copies_of_one_direction_go_first_in_first_out() -> None:
    both = make_program(
        [("a", 1.0, [], ["p"]), ("b", 1.0, ["v"], ["q"]), ("c", 0.0, ["w"], ["r"])],
        {"p": 10, "q": 10, "r": 10, "v": {"size": 60, "input": True}, "w": {"size": 100, "input": True}},
    )
    # `w` is issued first and due last; `v` waits behind it.
    mapping = make_mapping(
        both,
        [("b", "v"), ("c", "w")],
        [("w", 0, 2, 0), ("v", 0, 1, 104)],
        [copy("w", PREFETCH, -1, 2), copy("v", PREFETCH, -1, 1)],
    )
    timeline = simulate(both, both.target, mapping)
    assert timeline.wait_s[1] == pytest.approx(1.6 - 0.9)
    assert timeline.copy_end_s[0] < timeline.copy_end_s[1]


def test_a_cross_program_prefetch_is_free_when_steady_and_paid_when_cold() -> None:
    mapping = make_mapping(program(), [("c", "w")], [("w", 0, 2, 0)], [copy("w", CROSS_PROGRAM, -1, 1)])
    steady, cold = run(mapping), run(mapping, start="cold")
    assert steady.waited_s == 0.0
    assert cold.waited_s == pytest.approx(1.2 - 0.9), "due before `b`, and `a` hides 0.9 s"
    with pytest.raises(UserError, match="'warm' is not known; choose one of steady, cold"):
        run(mapping, start="warm")


def test_loop_trips_weigh_time_and_waits() -> None:
    looped = make_program(
        [("a", 1.0, [], ["p"]), ("b", 0.5, [], ["q"]), ("c", 0.0, ["w"], ["r"]), ("d", 1.0, [], ["s"])],
        {"p": 10, "q": 10, "r": 10, "s": 10, "w": {"size": 100, "input": True}},
        loops=[(1, 2, 10)],
    )
    assert all_hbm_latency(looped, looped.target) == pytest.approx(1.0 + 10 * (0.5 + 1.1) + 1.0)
    inside = make_mapping(looped, [("c", "w")], [("w", 2, 2, 0)], [copy("w", PREFETCH, 1, 2)])
    timeline = simulate(looped, looped.target, inside)
    assert timeline.wait_s[2] == pytest.approx(1.0)
    assert timeline.waited_s == pytest.approx(10.0)
    before = make_mapping(looped, [("c", "w")], [("w", 0, 2, 0)], [copy("w", PREFETCH, -1, 1)])
    assert simulate(looped, looped.target, before).waited_s == pytest.approx(1.0 - 0.9)
    # Given up after `b` and fetched again by the end of the body, in every pass.
    again = make_mapping(looped, [], [("w", 2, 2, 0)], [copy("w", PREFETCH, 1, 3)])
    assert simulate(looped, looped.target, again).waited_s == pytest.approx(10 * 1.0)
    assert simulate(looped, looped.target, again).wait_s[3] == pytest.approx(1.0)


def test_a_wait_counts_once_for_each_trip_of_its_own_loop_whatever_the_loops_inside() -> None:
    """10 trips around a loop of `inner` trips: `w` is due before `c`, which only the outer loop holds."""
    for inner in (0, 1, 3):
        nested = make_program(
            [("a", 0.1, [], ["p"]), ("b", 0.1, [], ["q"]), ("c", 0.0, ["w"], ["r"])],
            {"p": 10, "q": 10, "r": 10, "w": {"size": 100, "input": True}},
            loops=[(0, 2, 10), (1, 1, inner)],
        )
        mapping = make_mapping(nested, [("c", "w")], [("w", 1, 2, 0)], [copy("w", PREFETCH, 0, 2)])
        assert simulate(nested, nested.target, mapping).waited_s == pytest.approx(10 * 1.0)


def test_a_wait_between_two_loops_counts_as_the_loop_around_both() -> None:
    """The outer loop has no instruction of its own."""
    nested = make_program(
        [("a", 0.1, [], ["p"]), ("b", 0.0, ["w"], ["q"])],
        {"p": 10, "q": 10, "w": {"size": 100, "input": True}},
        loops=[(0, 1, 10), (0, 0, 3), (1, 1, 5)],
    )
    mapping = make_mapping(nested, [("b", "w")], [("w", 1, 1, 0)], [copy("w", PREFETCH, 0, 1)])
    timeline = simulate(nested, nested.target, mapping)
    assert timeline.waited_s == pytest.approx(10 * 1.0)


def test_an_instruction_is_never_faster_than_its_compute_time() -> None:
    p = program()
    run_s, hbm_s = instruction_times(p, p.target, np.ones(p.num_accesses, bool))
    assert run_s.tolist() == pytest.approx([1.0, 1.0, 0.14])
    assert hbm_s.tolist() == pytest.approx([0.0, 0.0, 0.0])
    with pytest.raises(UserError, match="cost model 'watts'"):
        instruction_times(p, p.target, np.ones(p.num_accesses, bool), "watts")
