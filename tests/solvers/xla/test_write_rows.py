"""Rows of stays and ends of write-backs in compiled code, against the same rules in plain Python."""

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.solvers.xla.write_rows import end_before_prefetches, residency_rows


def rows_of(stays: NDArray[np.int64], slices: NDArray[np.int64]) -> list[list[int]]:
    table: list[list[int]] = []
    by_group: dict[int, list[list[int]]] = {}
    for group, own, first, last, offset, whole, at, count in stays.T.tolist():
        before = by_group.setdefault(group, [])
        met = [row for row in before if row[2] >= first]
        for row in met:
            row[2] = max(row[2], last)
        if not met:
            parts = slices[:, at : at + count].T.tolist() if count else [[0, whole, first]]
            added = [[own, begin, last, offset, low, high] for low, high, begin in parts if begin <= last]
            table += added
            before += added
    return table


def test_rows_of_random_stays() -> None:
    draw = np.random.default_rng(0)
    prolonged = 0
    for _ in range(50):
        count, parts = 40, 30
        first = draw.integers(0, 60, count)
        cuts = draw.integers(0, 4, count) * (draw.random(count) < 0.5)
        stays = np.array(
            [
                draw.integers(0, 12, count),
                draw.integers(0, 9, count),
                first,
                first + draw.integers(-2, 12, count),
                4096 * draw.integers(0, 50, count),
                draw.integers(1, 9000, count),
                draw.integers(0, parts - 4, count),
                cuts,
            ]
        )
        low = draw.integers(0, 99, parts)
        slices = np.array([low, low + draw.integers(1, 99, parts), draw.integers(0, 60, parts)])
        wanted = rows_of(stays, slices)
        prolonged += len(wanted) < (np.maximum(cuts, 1)).sum()
        np.testing.assert_array_equal(residency_rows(stays, slices, 12), np.array(wanted).reshape(-1, 6))
    assert prolonged
    assert residency_rows(np.zeros((8, 0), np.int64), np.zeros((3, 0), np.int64), 0).shape == (0, 6)


def copy(buffer: int, direction: int, start: int, end: int) -> list[int]:
    return [buffer, direction, start, end, 0, 8, buffer, -1]


def test_a_write_back_ends_before_a_prefetch_of_its_buffer_starts() -> None:
    copies = np.array(
        [
            copy(0, WRITE_BACK, 3, 9),
            copy(0, PREFETCH, 5, 12),
            copy(1, WRITE_BACK, 3, 9),  # another buffer's
            copy(2, PREFETCH, 4, 8),  # starts with its write-back: one later
            copy(2, WRITE_BACK, 4, 7),
            copy(3, WRITE_BACK, 1, 2),  # over before
            copy(3, PREFETCH, 6, 9),
        ]
    )
    end_before_prefetches(copies, 4)
    np.testing.assert_array_equal(copies[:, 2:4], [[3, 5], [5, 12], [3, 9], [5, 8], [4, 5], [1, 2], [6, 9]])
