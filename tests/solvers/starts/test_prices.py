"""Prices of fast memory: where memory is free, where it is scarce, and where one large stay is worth more than many."""

import numpy as np
import pytest
from hypothesis import given, settings
from programs import make_program, programs

from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.starts.knapsack import free_bytes
from mallocmuzero.solvers.starts.prices import Prices, find_prices
from mallocmuzero.solvers.starts.rounding import ORDERS, order_by, stays_of_prices


def prices_of(program: Program, copy_share: float = 0.1) -> tuple[Task, Prices]:
    task = Task(program, None, "msa", Budget(None, 100), 0)
    return task, find_prices(task.tables, free_bytes(task.tables, program.reserved), copy_share)


def shares(program: Program, prices: Prices) -> dict[str, float]:
    """The share of each buffer's last access."""
    return {program.buffer_names[b]: float(prices.fast[a]) for a, b in enumerate(program.access_buffer)}


def contended(size: int) -> Program:
    """`big` and three of `size` bytes are held over the same instruction; fast memory has 128 bytes."""
    small = {name: {"size": size, "input": True} for name in ("p", "q", "r")}
    return make_program(
        [("make", 0.0, ["x"], ["big"]), ("use", 0.0, ["big", "p", "q", "r"], ["out"])],
        {"x": {"size": 8, "input": True}, "big": 104, **small, "out": {"size": 8, "output": True}},
    )


def test_memory_costs_little_where_all_fits() -> None:
    program = contended(1)
    _, prices = prices_of(program, 0.0)
    scarce = prices_of(contended(40), 0.0)[1]
    assert prices.price.sum() < 0.3 * scarce.price.sum()
    assert min(shares(program, prices).values()) > 0.5


def test_scarce_memory_has_a_price_where_it_is_scarce() -> None:
    _, prices = prices_of(contended(40), 0.0)
    make, use = prices.price
    assert use > 0.0 == make


def test_a_large_stay_beats_small_ones_that_come_first_by_density() -> None:
    """An attention's scores fill fast memory: no knapsack by density takes them, rounded prices do."""
    task, prices = prices_of(load("bert-b32-s384"), 1.0)
    stays, share = stays_of_prices(task.tables, prices, 0.15)
    free = free_bytes(task.tables, task.game.program.reserved).min()
    order = order_by("benefit", stays, share)
    assert stays.size[order[0]] > 0.9 * free


@settings(max_examples=40, deadline=None)
@given(programs())
def test_shares_are_shares_and_stays_hold_what_they_say(program: Program) -> None:
    task, prices = prices_of(program)
    for share in (prices.fast, prices.written_back, prices.void):
        assert ((share >= 0.0) & (share <= 1.0 + 1e-12)).all()
    assert (prices.written_back <= prices.fast).all()
    assert (prices.price >= 0.0).all()
    stays, share = stays_of_prices(task.tables, prices, 0.5)
    np.testing.assert_array_equal(stays.of_access >= 0, prices.fast > 0.5)
    for stay in range(len(stays.size)):
        members = np.flatnonzero(stays.of_access == stay)
        assert len(set(program.access_buffer[members].tolist())) == 1
        assert stays.first[stay] == program.access_instruction[members].min()
        assert stays.last[stay] == program.access_instruction[members].max()
        assert share[stay] == pytest.approx(prices.fast[members].mean())
    for key in ORDERS:
        order = order_by(key, stays, share)
        assert len(set(order.tolist())) == len(order)
