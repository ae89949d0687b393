"""The packers against brute force, against instances that fit by construction, and against the checker."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.packing import exact
from mallocmuzero.env.packing.best_fit import best_fit
from mallocmuzero.env.packing.exact_state import new_work, tables_of
from mallocmuzero.env.packing.generate import Cut, crossed, guillotine, pinwheels, skyline
from mallocmuzero.env.packing.pack import FEASIBLE, INFEASIBLE, UNDECIDED, pack
from mallocmuzero.env.packing.portfolio import rounds
from mallocmuzero.env.packing.problem import Packing, collisions, make_packing


def brute_force(packing: Packing) -> bool:
    """Returns whether any packing exists, by trying all offsets of all items."""
    step, spans = packing.alignment, list(zip(packing.span_lower, packing.span_upper, strict=True))
    ranges = [
        range(-(-int(floor) // step) * step, packing.capacity - size + 1, step)
        for floor, size in zip(packing.floor.tolist(), packing.size.tolist(), strict=True)
    ]
    together = {
        (int(packing.span_item[a]), int(packing.span_item[b]))
        for a, b in itertools.combinations(range(len(spans)), 2)
        if spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1]
    }
    at: list[int] = []

    def fits(i: int, offset: int) -> bool:
        return all(
            offset + packing.size[i] <= at[j] or at[j] + packing.size[j] <= offset
            for j in range(i)
            if (i, j) in together or (j, i) in together
        )

    def place(i: int) -> bool:
        if i == packing.items:
            return True
        for offset in ranges[i]:
            if fits(i, offset):
                at.append(offset)
                if place(i + 1):
                    return True
                at.pop()
        return False

    return place(0)


@st.composite
def small(draw: st.DrawFn) -> Packing:
    items = draw(st.integers(1, 5))
    spans = []
    for item in range(items):
        lower = draw(st.integers(0, 5))
        upper = draw(st.integers(lower + 1, 7))
        spans.append((item, lower, upper))
        if draw(st.booleans()) and upper < 6:
            spans.append((item, draw(st.integers(upper, 6)), 8))
    owner, lower, upper = zip(*spans, strict=True)
    size = draw(st.lists(st.integers(1, 4), min_size=items, max_size=items))
    floor = draw(st.lists(st.sampled_from([0, 0, 0, 1, 3]), min_size=items, max_size=items))
    return make_packing(lower, upper, size, draw(st.integers(2, 8)), draw(st.sampled_from([1, 1, 2])), floor, owner)


@settings(max_examples=150, deadline=None)
@given(small())
def test_the_exact_search_agrees_with_brute_force(packing: Packing) -> None:
    packed = pack(packing, seconds=None, rules=False)
    assert packed.status == (FEASIBLE if brute_force(packing) else INFEASIBLE)
    if packed.offsets is not None:
        assert collisions(packing, packed.offsets) == []


@settings(max_examples=100, deadline=None)
@given(small(), st.sampled_from([0, 1, 256]), st.integers(0, 18))
def test_every_order_agrees_with_brute_force_however_little_is_inferred(packing: Packing, room: int, k: int) -> None:
    order, work = next(rounds(packing))[k], new_work(packing, room)
    status = exact.search(tables_of(packing, order.rank), work, 1_000_000, order.live)
    assert status == (exact.SOLVED if brute_force(packing) else exact.INFEASIBLE)
    if status == exact.SOLVED:
        assert collisions(packing, work.placed["offset"] * packing.alignment) == []


@settings(max_examples=100, deadline=None)
@given(small())
def test_rules_never_overlap_and_never_take_less_than_the_load(packing: Packing) -> None:
    placed = best_fit(packing)
    roomy = make_packing(
        packing.span_lower, packing.span_upper, packing.size, 100, packing.alignment, packing.floor, packing.span_item
    )
    assert collisions(roomy, placed.offsets) == []
    assert placed.peak == (placed.offsets + packing.size).max()
    assert placed.peak > packing.load - packing.alignment


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "cut",
    [lambda g: guillotine(40, g), lambda g: pinwheels(8, g, 64, 512), lambda g: skyline(12, g, 48, 512)],
)
def test_instances_without_a_spare_byte(seed: int, cut) -> None:
    made: Cut = cut(np.random.default_rng(seed))
    assert collisions(made.packing, made.offset) == []
    assert made.packing.load == made.packing.capacity
    packed = pack(made.packing, seconds=None, nodes=2_000_000)
    assert packed.status == FEASIBLE


@pytest.mark.parametrize("seed", range(4))
def test_one_byte_less_is_proved_impossible(seed: int) -> None:
    made = guillotine(30, np.random.default_rng(seed))
    packing = made.packing
    less = make_packing(packing.span_lower, packing.span_upper, packing.size, packing.capacity - 1)
    packed = pack(less, seconds=None)
    assert packed.status == INFEASIBLE
    assert packed.method == "load"
    assert packed.offsets is None


def test_infeasibility_beyond_the_load_is_proved() -> None:
    # Random lives nearly always fit in their load; floors, as reserved bytes make them, change that.
    generator = np.random.default_rng(0)
    proved = 0
    for _ in range(80):
        lower = generator.integers(0, 4, 6)
        upper = lower + generator.integers(1, 4, 6)
        floor = generator.choice([0, 0, 1, 2, 3], 6)
        packing = make_packing(lower, upper, generator.integers(1, 5, 6), 12, floor=floor)
        packing = make_packing(lower, upper, packing.size, packing.load, floor=floor)
        packed = pack(packing, seconds=None)
        assert (packed.status == FEASIBLE) == brute_force(packing)
        if packed.status == INFEASIBLE:
            assert packed.method == "exact"
            proved += 1
    assert proved >= 3


def test_crossed_items_keep_the_load_and_may_not_fit() -> None:
    statuses = set()
    for seed in range(14, 18):
        generator = np.random.default_rng(seed)
        packing = crossed(skyline(30, generator, times=24, capacity=16), 12, generator)
        assert packing.load == packing.capacity
        statuses.add(pack(packing, seconds=None).status)
    assert statuses == {FEASIBLE, INFEASIBLE}


def test_crossed_items_are_proved_not_to_fit_by_search() -> None:
    generator = np.random.default_rng(16)
    packing = crossed(skyline(30, generator, times=24, capacity=16), 4, generator)
    packed = pack(packing, seconds=None, rules=False)
    assert (packed.status, packed.method) == (INFEASIBLE, "exact")
    # A byte more, and they fit.
    more = make_packing(packing.span_lower, packing.span_upper, packing.size, packing.capacity + 1)
    assert pack(more, seconds=None).status == FEASIBLE


def test_two_hundred_items_without_a_spare_byte_fit_after_restarts() -> None:
    made = pinwheels(50, np.random.default_rng(5))
    packed = pack(made.packing, seconds=None, nodes=400_000)
    assert packed.status == FEASIBLE


def test_orders_are_permutations_and_repeat() -> None:
    packing = guillotine(30, np.random.default_rng(0)).packing
    twice = [[order for orders in itertools.islice(rounds(packing), 3) for order in orders] for _ in range(2)]
    for one, other in zip(*twice, strict=True):
        assert sorted(one.rank.tolist()) == list(range(packing.items))
        assert one.live == other.live
        np.testing.assert_array_equal(one.rank, other.rank)
    assert len({order.rank.tobytes() for order in twice[0]}) > 30


def test_a_limit_is_no_proof() -> None:
    made = guillotine(60, np.random.default_rng(1))
    packed = pack(made.packing, seconds=None, nodes=5, rules=False)
    assert packed.status == UNDECIDED
    assert packed.nodes == 5
    begin = time.perf_counter()
    hard = pinwheels(60, np.random.default_rng(1), 1000, 10_000)
    packed = pack(hard.packing, seconds=0.3, rules=False)
    assert time.perf_counter() - begin < 20
    assert packed.status in (UNDECIDED, FEASIBLE)


def test_sections_are_the_maximal_sets() -> None:
    packing = make_packing([0, 1, 3, 3], [2, 4, 5, 6], [1, 1, 1, 1], 4)
    # {0, 1} up to 2, then {1, 2, 3}; {3} alone is part of the latter.
    assert packing.sections == 2
    assert packing.load == 3
    first, past = packing.span_section
    assert list(zip(first.tolist(), past.tolist(), strict=True)) == [(0, 1), (0, 2), (1, 2), (1, 2)]


def test_a_search_repeats() -> None:
    made = pinwheels(10, np.random.default_rng(3))
    results = [pack(made.packing, seconds=None, nodes=300_000, rules=False) for _ in range(2)]
    assert results[0].nodes == results[1].nodes
    if results[0].offsets is not None:
        np.testing.assert_array_equal(results[0].offsets, results[1].offsets)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1], [1], [1], 4), "no time at all"),
        (([0], [1], [0], 4), "has 0 bytes"),
        (([0], [1], [1], -4), "-4 bytes"),
        (([0], [1], [1, 2], 4), "belong to other items"),
        (([0], [1], [1], 2**62 + 1), "cannot be packed; give at most"),
        (([0], [1], [1], 4, 10**30), f"with an alignment of {10**30} cannot be packed"),
        (([0], [1], [10**30], 4), "`size` of a packing problem holds a number outside"),
        (([0], [10**30], [1], 4), "`upper` of a packing problem"),
        (([0], [1], [1], 4, 1, [10**30]), "`floor` of a packing problem"),
        (([0], [1], [1], 4, 1, [2**62]), "take 4611686018427387905 bytes on top of each other"),
        (([0, 0], [1, 1], [2**61, 2**61 + 1], 4), "on top of each other with an alignment of 1, more than"),
        (([0, 0], [1, 1], [1, 1], 4, 2**62), "or a smaller alignment"),
    ],
)
def test_nonsense_is_refused(arguments, words: str) -> None:
    with pytest.raises(UserError, match=words):
        make_packing(*arguments)


def test_the_largest_numbers_are_packed() -> None:
    most = 2**62
    assert pack(make_packing([0], [1], [most], most, most)).status == FEASIBLE
    assert pack(make_packing([0, 0], [1, 1], [1, 1], most, most // 2)).status == FEASIBLE
    assert pack(make_packing([0, 0], [1, 1], [1, 1], most // 2, most // 2)).status == INFEASIBLE


def test_no_items_fit_anywhere() -> None:
    assert pack(make_packing([], [], [], 0)).status == FEASIBLE
    assert exact.SOLVED == 1
