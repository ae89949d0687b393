"""The time that `tune` keeps for the answers of the compiler, and for one between two searches."""

import pytest

from mallocmuzero.env.capture.compiler import ASSIGNMENT, CODE
from mallocmuzero.roundtrip.kept_time import Answers, affords_scout, answers, is_to_the_end_at_once


def test_what_the_compiler_is_asked_has_its_time_kept() -> None:
    # Four candidates of 2 s and one compilation of 20 s, each 1.3 times as long.
    assert answers({CODE: 20.0, ASSIGNMENT: 2.0}, 4, 100.0) == Answers(pytest.approx(10.4), pytest.approx(26.0))
    # Less than half of what is left would remain for the search: the compilation to the end goes first, ...
    assert answers({CODE: 20.0, ASSIGNMENT: 2.0}, 4, 50.0) == Answers(pytest.approx(10.4), 0.0)
    # ... then candidates.
    assert answers({CODE: 20.0, ASSIGNMENT: 2.0}, 4, 10.0) == Answers(5.0, 0.0)
    # The code generator did not end.
    assert answers({ASSIGNMENT: 2.0}, 4, 100.0) == Answers(pytest.approx(10.4), 0.0)
    assert answers({CODE: 2.0}, 4, 100.0) == Answers(pytest.approx(2.6), pytest.approx(2.6))
    # Where cycles count, candidates go first, but for one, or but for those that take little time in all, ...
    longest_s = {CODE: 20.0, ASSIGNMENT: 4.0}
    assert answers(longest_s, 4, 50.0, with_cycles=True) == Answers(pytest.approx(5.2), pytest.approx(26.0))
    longest_s = {CODE: 20.0, ASSIGNMENT: 0.5}
    assert answers(longest_s, 4, 50.0, with_cycles=True) == Answers(pytest.approx(1.95), pytest.approx(26.0))
    longest_s = {CODE: 20.0, ASSIGNMENT: 2.0}
    assert answers(longest_s, 4, 50.0, with_cycles=True) == Answers(pytest.approx(3.9), pytest.approx(26.0))
    assert answers(longest_s, 4, 100.0, with_cycles=True) == Answers(pytest.approx(10.4), pytest.approx(26.0))
    # ... and where the best could not be compiled to the end, no time is kept for it.
    assert answers(longest_s, 4, 30.0, with_cycles=True).to_the_end_s == 0.0


def test_a_compilation_between_two_searches_takes_a_fifth_of_their_time_at_most() -> None:
    assert affords_scout({CODE: 20.0}, 140.0)  # 26 s
    assert not affords_scout({CODE: 20.0}, 120.0)
    assert not affords_scout({ASSIGNMENT: 2.0}, 1000.0)  # the code generator did not end


@pytest.mark.parametrize(
    ("left_s", "one_s", "at_once"),
    [
        (112.0, 5.0, False),  # a look that takes little is taken as long as there is time for it
        (104.0, 5.0, True),
        (112.0, 10.0, True),  # one that takes long is not taken for one candidate alone
        (121.0, 10.0, False),
    ],
)
def test_a_candidate_is_compiled_to_the_end_at_once_where_there_is_no_time_for_a_look(
    left_s: float, one_s: float, at_once: bool
) -> None:
    assert is_to_the_end_at_once(left_s, one_s, 100.0) == at_once
