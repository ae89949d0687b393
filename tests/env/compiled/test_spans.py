"""Disjoint spans: what is added to them is their union, in order."""

import numpy as np
import pytest

from mallocmuzero.env.compiled import spans
from mallocmuzero.env.compiled.kernel import kernel
from mallocmuzero.env.compiled.struct import Rows, Struct, rows


class _Spans(Struct):
    span: Rows = rows(spans.SPAN)


@kernel(_Spans, int, int, int, returns=int)
def _add(kept: _Spans, count: int, low: int, high: int) -> int:
    return spans.add_span(kept.span, count, low, high)


@kernel(_Spans, int, int, returns=int)
def _first_above(kept: _Spans, count: int, position: int) -> int:
    return spans.first_above(kept.span, count, position)


@kernel(_Spans, int, int, returns=int)
def _first_at_least(kept: _Spans, count: int, position: int) -> int:
    return spans.first_at_least(kept.span, count, position)


def _runs(used: np.ndarray) -> list[tuple[int, int]]:
    """Returns the runs of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], used, [False]]).astype(int)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


@pytest.mark.parametrize("longest", [2, 8, 60])
def test_spans_are_the_union_of_what_was_added(longest: int) -> None:
    generator = np.random.default_rng(longest)
    for _ in range(30):
        kept = _Spans(span=np.full(64, -1, spans.SPAN))
        used, count = np.zeros(100, bool), 0
        for _ in range(25):
            low = int(generator.integers(0, 99))
            high = min(100, low + int(generator.integers(1, longest)))
            count = _add(kept, count, low, high)
            used[low:high] = True
            assert kept.span[:count].tolist() == _runs(used)


def test_spans_that_touch_become_one() -> None:
    kept = _Spans(span=np.zeros(8, spans.SPAN))
    count = _add(kept, 0, 10, 20)
    count = _add(kept, count, 30, 40)
    assert count == 2
    assert _add(kept, count, 20, 30) == 1
    assert kept.span[0].tolist() == (10, 40)


def test_places_among_spans() -> None:
    kept = _Spans(span=np.array([(10, 20), (30, 40), (40, 45)], spans.SPAN))
    assert [_first_above(kept, 3, position) for position in (0, 10, 19, 20, 39, 40, 45)] == [0, 0, 0, 1, 1, 2, 3]
    assert [_first_at_least(kept, 3, position) for position in (0, 10, 11, 30, 31, 41)] == [0, 0, 1, 1, 2, 3]
    assert (_first_above(kept, 0, 5), _first_at_least(kept, 0, 5)) == (0, 0)
