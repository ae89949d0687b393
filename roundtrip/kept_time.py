"""The time that `tune` keeps for the compiler, based on how long the compilations of the capture took."""

import math
from dataclasses import dataclass

from ..env.capture.compiler import ASSIGNMENT, CODE
from ..env.program.program import Program

# The capture's share of all the time, and the largest share of what is left then for the compiler's answers. The rest
# is for searching.
CAPTURE_SHARE, _ANSWERS = 0.4, 0.5
# The latter share if the best options could otherwise not be compiled to the end.
_ANSWERS_WITH_CYCLES = 0.9
# Shares of the time for searching: for the first of two searches, and for the compilation between them at most.
FIRST_SEARCH, _SCOUT = 0.15, 0.2
# A compilation may take this many times as long as the longest of the capture.
_LONGER = 1.3
# So many candidates are compiled until memory is assigned before one is compiled to the end, if they take no more than
# this share of its time: the compiler's mapping may turn out worse than foreseen, or cannot be read back.
_FIRST, _FIRST_SHARE = 3, 0.15
# Until memory is assigned, a compilation takes at most about this share of the time to the end, and often a tenth.
_ASSIGNMENT_SHARE = 0.25


@dataclass(frozen=True)
class Answers:
    """Seconds kept for the compiler: for all candidates until memory is assigned, and for the best one to the end."""

    candidates_s: float
    to_the_end_s: float

    @property
    def all_s(self) -> float:
        """All that is kept."""
        return self.candidates_s + self.to_the_end_s


def answers(longest_s: dict[str, float], candidates: int, left_s: float, with_cycles: bool = False) -> Answers:
    """Returns how many of the `left_s` seconds to keep, based on the longest compilations of the capture.

    The compilation to the end is the first to be given up: the best candidate is then judged by the program's table.
    With `with_cycles` it is the last to be given up, and all candidates but one go first, or but three if these take
    little time.
    """
    most_s = _ANSWERS * max(0.0, left_s)
    one_s = until_assignment_s(longest_s)
    end_s = to_the_end_s(longest_s)
    if with_cycles and end_s + one_s <= _ANSWERS_WITH_CYCLES * max(0.0, left_s):
        least_s = max(one_s, min(_FIRST * one_s, _FIRST_SHARE * end_s))
        return Answers(min(max(most_s - end_s, least_s), candidates * one_s), end_s)
    candidates_s = min(most_s, candidates * one_s)
    return Answers(candidates_s, end_s if candidates_s + end_s <= most_s else 0.0)


def is_to_the_end_at_once(left_s: float, one_s: float, end_s: float) -> bool:
    """Returns whether a candidate is compiled to the end without a look at its mapping: there is no time for the look.

    Args:
      left_s: seconds that are left.
      one_s, end_s: seconds that a candidate takes until memory is assigned, and to the end.
    """
    looks = 1 if _FIRST * one_s <= _FIRST_SHARE * end_s else 2  # One alone, if it takes long, is better saved.
    return left_s < end_s + looks * one_s


def until_assignment_s(longest_s: dict[str, float]) -> float:
    """Returns the seconds to allow a compilation until memory is assigned, guessed if the capture made none."""
    return _LONGER * longest_s.get(ASSIGNMENT, _ASSIGNMENT_SHARE * longest_s.get(CODE, 0.0))


def to_the_end_s(longest_s: dict[str, float]) -> float:
    """Returns the seconds to allow a compilation to the end, infinity if the capture made none."""
    return _LONGER * longest_s.get(CODE, math.inf)


def affords_scout(longest_s: dict[str, float], search_s: float) -> bool:
    """Returns whether `search_s` seconds for searching allow one more compilation to the end."""
    return to_the_end_s(longest_s) <= _SCOUT * search_s


def why_no_cycles(
    program: Program,
    longest_s: dict[str, float],
    kept: Answers,
    minutes: float,
    begin: float,
    until: float,
    now: float,
) -> str | None:
    """Returns why the compiler cannot report the cycles of any options in time, and what to do; None if it can."""
    instead = "or --objective msa, which lets the cost model msa decide alone"
    if program.cycles is None and CODE in longest_s:
        return f"the code generator tells no cycles of this function: give {instead.removeprefix('or ')}"
    if program.cycles is None:
        return (
            f"the code generator did not end within {CAPTURE_SHARE * (until - begin):.0f} s, so that no gain could be "
            f"confirmed under cycles: give --minutes {math.ceil(2 * minutes)} or more, {instead}"
        )
    if kept.to_the_end_s:
        return None
    longest = longest_s[CODE]
    needed_s = now - begin + (to_the_end_s(longest_s) + until_assignment_s(longest_s)) / _ANSWERS_WITH_CYCLES
    more = max(math.floor(minutes) + 1, math.ceil(1.1 * needed_s / 60.0))
    return (
        f"a compilation to the end takes {longest:.0f} s and {until - now:.0f} s are left, so that no gain could be "
        f"confirmed under cycles: give --minutes {more} or more, {instead}"
    )
