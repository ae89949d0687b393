"""The search over flags: it climbs, ends by itself, and says the least that brings a mapping about."""

from collections.abc import Iterator

import numpy as np

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.encoding import Codec, Encoding
from mallocmuzero.roundtrip.flag_search import FlagSearch, Tried, shortest_of_each
from mallocmuzero.solvers.order.flags import Flags, neighbours


def searched(wanted: Flags) -> tuple[FlagSearch, Tried, list[Encoding]]:
    """A search whose score is the number of flags unlike the wanted ones, its start, and what it will have tried."""
    codec = Codec(make_judge(load("tiny")), 0)
    asked: list[Encoding] = []

    def attempt(encoding: Encoding) -> Tried:
        asked.append(encoding)
        unlike = sum(vars(encoding.flags)[name] != value for name, value in vars(wanted).items())
        return Tried((float(unlike), 0.0), float(unlike), encoding, load("tiny").production)

    search = FlagSearch(attempt, codec, np.random.default_rng(0))
    return search, attempt(codec.default()), asked


def test_a_climb_changes_one_flag_after_another() -> None:
    wanted = Flags(bandwidth=0.5, overlap=3.0, idle=0.25)
    search, start, asked = searched(wanted)
    found = search.climb(start, lambda: False)
    assert found.encoding.flags == wanted
    assert found.score == (0.0, 0.0)
    assert len({one.flags for one in asked}) == len(asked)  # nothing is decoded twice


def test_a_climb_ends_when_the_time_is_up() -> None:
    search, start, asked = searched(Flags(bandwidth=0.5, overlap=3.0, idle=0.25))
    answers: Iterator[bool] = iter([False] * 5 + [True])
    assert search.climb(start, lambda: next(answers)).score <= start.score
    assert len(asked) == 1 + 5


def test_flags_alone_end_after_vain_kicks() -> None:
    wanted = Flags(served=2.0)
    search, start, asked = searched(wanted)
    found = search.alone(start, lambda: False, kicks=3)
    assert found[0].encoding.flags == wanted
    assert found[-1].encoding.flags == Flags()  # the default is among them
    assert [one.score for one in found] == sorted({one.score for one in found})
    assert len(asked) > 3 * len(found)


def test_of_those_that_score_alike_the_shortest_is_told() -> None:
    search, start, _ = searched(Flags())
    others = neighbours(Flags(), load("tiny"), load("tiny").target)
    more = [start._replace(encoding=search._codec.under(start.encoding, flags)) for flags in others]
    worse = start._replace(score=(1.0, 0.0))
    assert shortest_of_each([*more, worse, start]) == [start, worse]
