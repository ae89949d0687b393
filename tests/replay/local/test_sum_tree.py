"""The sum tree draws in proportion to the weights."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mallocmuzero.replay.local.sum_tree import SumTree


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_finds_what_a_running_sum_finds(capacity, seed):
    rng = np.random.default_rng(seed)
    tree, weights = SumTree(capacity), np.zeros(capacity)
    for _ in range(5):
        # Whole numbers add up without rounding, so the two ways must agree exactly; equal indices occur.
        indices = rng.integers(capacity, size=rng.integers(1, capacity + 1))
        values = rng.integers(4, size=len(indices)).astype(float)
        tree.set(indices, values)
        for index, value in zip(indices, values, strict=True):
            weights[index] = value
        assert tree.total == weights.sum()
        np.testing.assert_array_equal(tree[np.arange(capacity)], weights)
        targets = np.arange(tree.total)
        np.testing.assert_array_equal(tree.find(targets), np.searchsorted(np.cumsum(weights), targets, side="right"))


def test_a_weight_of_zero_is_never_found():
    rng = np.random.default_rng(0)
    tree, weights = SumTree(100), rng.random(100) * (rng.random(100) < 0.2)
    tree.set(np.arange(100), weights)
    found = tree.find(np.append(rng.random(2000), np.nextafter(1, 0)) * tree.total)
    assert (weights[found] > 0).all()


def test_sums_depend_on_the_weights_alone():
    rng = np.random.default_rng(0)
    one, other = SumTree(37), SumTree(37)
    for _ in range(200):
        one.set(rng.integers(37, size=3), rng.random(3))
    other.set(np.arange(37), one[np.arange(37)])
    np.testing.assert_array_equal(one._sums, other._sums)


def test_nothing_to_set_or_find():
    tree = SumTree(5)
    tree.set(np.zeros(0, np.int64), np.zeros(0))
    assert tree.total == pytest.approx(0)
    assert tree.find(np.zeros(0)).shape == (0,)
