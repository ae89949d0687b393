"""Copies that XLA issues after a wait, in the same gap between two instructions."""

from pathlib import Path

import pytest
from compiler_cases import SMALL, assembled

from mallocmuzero.env.capture.gaps import place_in_gaps
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program


@pytest.fixture(scope="module")
def program() -> Program:
    return assembled(Path(SMALL))


def test_a_fetch_after_the_wait_for_its_write_back_begins_an_instruction_later(program: Program):
    back = (5, WRITE_BACK, 0, 2, 0, 64, 5, -1)
    fetch = (5, PREFETCH, 1, 4, 0, 64, 5, -1)
    other = (6, PREFETCH, 1, 4, 0, 64, 6, -1)
    copies = [(10, back), (20, fetch), (21, other)]
    residencies = [(5, 0, 1, 0, 0, 64), (5, 2, 4, 0, 0, 64), (6, 2, 4, 64, 0, 64)]
    later = place_in_gaps(copies, residencies, {10: 15, 20: 30, 21: 31}, set(), set(), program)
    assert copies == [(10, back), (21, other), (20, (5, PREFETCH, 2, 4, 0, 64, 5, -1))]
    assert later == {2}
    assert residencies == [(5, 0, 1, 0, 0, 64), (5, 3, 4, 0, 0, 64), (6, 2, 4, 64, 0, 64)]


def test_a_write_back_ends_earlier_if_the_fetch_behind_it_has_no_time_to_begin_later(program: Program):
    back = (5, WRITE_BACK, 0, 4, 0, 64, 5, -1)
    fetch = (5, PREFETCH, 3, 5, 0, 64, 5, -1)
    copies = [(10, back), (20, fetch)]
    residencies = [(5, 0, 3, 0, 0, 64), (5, 4, 5, 128, 0, 64)]
    known = list(residencies)
    assert place_in_gaps(copies, residencies, {10: 15, 20: 30}, set(), set(), program) == set()
    assert copies == [(10, (5, WRITE_BACK, 0, 3, 0, 64, 5, -1)), (20, fetch)]
    assert residencies == known


def test_a_copy_after_the_wait_for_what_replaces_an_instruction_begins_after_that(program: Program):
    replacing = (5, PREFETCH, 0, 3, 0, 64, 7, 2)
    fetch = (6, PREFETCH, 1, 4, 0, 64, 6, -1)
    copies = [(10, replacing), (20, fetch)]
    residencies = [(6, 2, 4, 64, 0, 64)]
    assert place_in_gaps(copies, residencies, {10: 15, 20: 30}, {2}, set(), program) == set()
    assert copies[1] == (20, (6, PREFETCH, 2, 4, 0, 64, 6, -1))
    assert residencies == [(6, 3, 4, 64, 0, 64)]


def test_a_copy_before_the_wait_stays(program: Program):
    copies = [(10, (5, WRITE_BACK, 0, 2, 0, 64, 5, -1)), (12, (5, PREFETCH, 1, 4, 0, 64, 5, -1))]
    known = list(copies)
    assert place_in_gaps(copies, [], {10: 15, 12: 30}, set(), set(), program) == set()
    assert copies == known


def test_copies_after_a_fetch_that_a_pause_divides_from_its_write_back_begin_after_the_pause(program: Program):
    back = (5, WRITE_BACK, 0, 2, 0, 64, 5, -1)
    fetch = (5, PREFETCH, 2, 4, 0, 64, 5, -1)
    other = (6, PREFETCH, 1, 4, 0, 64, 6, -1)
    copies = [(10, back), (20, fetch), (21, other)]
    residencies = [(5, 3, 4, 0, 0, 64), (6, 2, 4, 64, 0, 64)]
    assert place_in_gaps(copies, residencies, {10: 15, 20: 30, 21: 31}, set(), {2}, program) == set()
    assert copies == [(10, back), (20, fetch), (21, (6, PREFETCH, 2, 4, 0, 64, 6, -1))]
    assert residencies == [(5, 3, 4, 0, 0, 64), (6, 3, 4, 64, 0, 64)]


def test_a_copy_after_a_wait_behind_the_pause_begins_after_the_pause(program: Program):
    waited = (5, PREFETCH, 0, 3, 0, 64, 5, -1)
    other = (6, PREFETCH, 1, 4, 64, 128, 6, -1)
    copies = [(10, waited), (20, other)]
    assert place_in_gaps(copies, [], {10: 15, 20: 30}, set(), {2}, program) == set()
    assert copies == [(10, waited), (20, (6, PREFETCH, 2, 4, 64, 128, 6, -1))]
