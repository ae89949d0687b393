"""Residencies: pieces are joined, and none crosses the border of a loop."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from programs import make_program

from mallocmuzero.env.program.extents import extents, held
from mallocmuzero.env.program.residencies import fit_to_loops, merge_residencies

# Instructions 1..3 are a loop that reads `w`, which lies in HBM when the program starts.
LOOP = make_program(
    [
        ("before", 1.0, [], ["s"]),
        ("head", 1.0, ["s"], ["h"]),
        ("middle", 1.0, ["h", "w"], ["m"]),
        ("tail", 1.0, ["m", "s"], ["s"]),
        ("after", 1.0, ["s"], ["out"]),
    ],
    {"w": {"size": 16, "input": True}, "s": 16, "h": 16, "m": 16, "out": {"size": 16, "output": True}},
    loops=[(1, 3, 5)],
)


W, H = (LOOP.buffer_names.index(name) for name in "wh")


@pytest.mark.parametrize(
    ("rows", "whole"),
    [
        # A prefetch in two slices before the loop; inside, the whole buffer at the same place.
        (
            [(W, 0, 1, 64, 0, 8), (W, 0, 1, 64, 8, 16), (W, 2, 3, 64, 0, 16)],
            [(W, 0, 3, 64, 0, 8), (W, 0, 3, 64, 8, 16)],
        ),
        # A carried value that is given up in the middle of the body and comes back for the next iteration.
        ([(W, 0, 2, 64, 0, 16), (W, 3, 4, 64, 0, 16)], [(W, 0, 4, 64, 0, 16)]),
        # The same, and it comes back to its place in slices, which are then there already.
        (
            [(W, 0, 1, 64, 0, 16), (W, 2, 2, 64, 0, 8), (W, 2, 2, 64, 8, 16), (W, 3, 4, 64, 0, 16)],
            [(W, 0, 4, 64, 0, 16)],
        ),
        # Apart from the loop, inside it, around it: as they are.
        ([(W, 0, 0, 64, 0, 16)], None),
        ([(W, 2, 2, 64, 0, 16)], None),
        ([(W, 0, 4, 64, 0, 16)], None),
    ],
)
def test_residencies_lie_inside_a_loop_apart_from_it_or_over_all_of_it(rows, whole):
    inexpressible: Counter[str] = Counter()
    fitted = fit_to_loops(merge_residencies(np.array(rows, np.int64)), LOOP, inexpressible, set())
    assert [tuple(row) for row in fitted.tolist()] == (rows if whole is None else whole)
    assert not inexpressible


def test_what_cannot_be_kept_over_the_loop_is_counted():
    inexpressible: Counter[str] = Counter()
    rows = np.array([(W, 0, 2, 64, 0, 16), (H, 3, 3, 72, 0, 16)], np.int64)
    fitted = fit_to_loops(rows, LOOP, inexpressible, {(W, 2)})
    assert np.array_equal(fitted, rows)
    assert inexpressible == {"residency that a loop's border cuts": 1}


def test_a_source_listed_into_a_loop_that_does_not_use_it_ends_before_the_loop():
    inexpressible: Counter[str] = Counter()
    rows = np.array([(W, 0, 2, 64, 0, 16), (H, 3, 3, 72, 0, 16)], np.int64)
    fitted = fit_to_loops(rows, LOOP, inexpressible, {(W, 0), (H, 3)})
    assert fitted.tolist() == [[W, 0, 0, 64, 0, 16], [H, 3, 3, 72, 0, 16]]
    assert not inexpressible


def test_residencies_of_one_buffer_are_merged():
    parts = [[0, 1, 5, 4096, 0, 64], [0, 2, 5, 4096, 64, 128]]
    result = [0, 5, 7, 4096, 0, 128]  # an operation works in place on what two slices brought
    other = [1, 5, 6, 0, 0, 64]
    merged = merge_residencies(np.array([result, other, *parts]))
    assert merged.tolist() == [[0, 1, 7, 4096, 0, 64], [0, 2, 7, 4096, 64, 128], other]
    twice = merge_residencies(np.array([[0, 1, 3, 0, 0, 64], [0, 3, 9, 0, 0, 64], [0, 12, 13, 0, 0, 64]]))
    assert twice.tolist() == [[0, 1, 9, 0, 0, 64], [0, 12, 13, 0, 0, 64]]


def test_a_whole_buffer_leaves_the_bytes_of_a_slice_that_lasts_longer():
    """The other slice has given its bytes up; held over a loop, the two would overlap."""
    merged = merge_residencies(np.array([(W, 0, 1, 64, 0, 8), (W, 0, 4, 64, 8, 16), (W, 3, 3, 64, 0, 16)]))
    assert merged.tolist() == [[W, 0, 1, 64, 0, 8], [W, 0, 4, 64, 8, 16], [W, 3, 3, 64, 0, 8]]


def test_a_split_buffer_is_in_the_way_only_with_its_part():
    part = np.zeros(LOOP.num_buffers, np.int64)
    part[H] = 8
    split = replace(LOOP, split=part)
    rows = np.array([(H, 0, 4, 40, 0, 16), (W, 2, 4, 48, 0, 16)], np.int64)
    for program, cut in ((split, 0), (LOOP, 1)):
        inexpressible: Counter[str] = Counter()
        fitted = fit_to_loops(rows, program, inexpressible, {(W, 2)})
        assert inexpressible.total() == cut
        assert fitted[:, 4:].tolist() == [[0, 16], [0, 16]], "a mapping names bytes of buffers"
    taken = extents(split, rows)
    assert taken[:, 5].tolist() == [8, 16]
    assert np.array_equal(held(split, taken), rows)
