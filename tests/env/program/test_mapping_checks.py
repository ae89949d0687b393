"""The rows of a mapping in a program file fit the program: the same rows pass as in the verifier."""

from pathlib import Path

import numpy as np
import pytest
from file_edits import small_program
from hypothesis import given
from hypothesis import strategies as st

from mallocmuzero.env.errors import FormatError
from mallocmuzero.env.program.document import Document
from mallocmuzero.env.program.mapping import COPY_FIELDS, RESIDENCY_FIELDS, Mapping
from mallocmuzero.env.program.mapping_checks import check_mapping
from mallocmuzero.env.verifier.violation import Report
from mallocmuzero.env.verifier.well_formed import sound_copies, sound_residencies

PROGRAM = small_program()  # three instructions, three buffers of 16, 64 and 16 bytes
RESIDENCY, COPY = [1, 0, 2, 0, 0, 64], [1, 0, -1, 3, 0, 64, 1, -1]
LARGE = 2**63 - 1


def check(residencies: list[list[int]], copies: list[list[int]]) -> None:
    table = np.array(residencies, np.int64).reshape(-1, len(RESIDENCY_FIELDS))
    copied = np.array(copies, np.int64).reshape(-1, len(COPY_FIELDS))
    mapping = Mapping(PROGRAM.sha256, np.zeros(PROGRAM.num_accesses, bool), table, copied)
    check_mapping(PROGRAM, mapping, Document(Path("p.json.gz"), {}, mend="capture it again", prefix="production."))


def changed(row: list[int], names: tuple[str, ...], **values: int) -> list[int]:
    return [values.get(name, value) for name, value in zip(names, row, strict=True)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"buffer": 3}, "`production.residencies.buffer[1]` is 3, outside 0..2;"),
        ({"buffer": -1}, "`production.residencies.buffer[1]` is -1, outside 0..2;"),
        ({"start": -1}, "`production.residencies.start[1]` is -1, outside 0..2;"),
        ({"start": 2, "end": 1}, "`production.residencies.end[1]` is 1, outside 2..2;"),
        ({"end": 3}, "`production.residencies.end[1]` is 3, outside 0..2;"),
        ({"low": -1}, "`production.residencies.low[1]` is -1, outside 0..63;"),
        ({"low": LARGE}, f"`production.residencies.low[1]` is {LARGE}, outside 0..63;"),
        ({"low": 8, "high": 8}, "`production.residencies.high[1]` is 8, outside 9..64;"),
        ({"high": 65}, "`production.residencies.high[1]` is 65, outside 1..64;"),
    ],
)
def test_residencies(values: dict[str, int], message: str) -> None:
    with pytest.raises(FormatError) as error:
        check([RESIDENCY, changed(RESIDENCY, RESIDENCY_FIELDS, **values)], [])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"buffer": 3}, "`production.copies.buffer[1]` is 3, outside 0..2;"),
        ({"source": -1}, "`production.copies.source[1]` is -1, outside 0..2;"),
        ({"direction": 3}, "`production.copies.direction[1]` is 3, outside 0..2;"),
        ({"replaces": 10**6}, "`production.copies.replaces[1]` is 1000000, outside -1..2;"),
        ({"start": -2}, "`production.copies.start[1]` is -2, outside -1..2;"),
        ({"start": 2, "end": 1}, "`production.copies.end[1]` is 1, outside 3..3;"),
        ({"start": LARGE}, f"`production.copies.start[1]` is {LARGE}, outside -1..2;"),
        ({"end": 4}, "`production.copies.end[1]` is 4, outside 0..3;"),
        ({"high": 65}, "`production.copies.high[1]` is 65, outside 1..64;"),
    ],
)
def test_copies(values: dict[str, int], message: str) -> None:
    with pytest.raises(FormatError) as error:
        check([], [COPY, changed(COPY, COPY_FIELDS, **values)])
    assert message in str(error.value)


def rows(fields: tuple[str, ...]) -> st.SearchStrategy[list[list[int]]]:
    """Rows of small numbers, most of which are in range."""
    bytes_of = {"low": st.integers(-1, 17), "high": st.integers(14, 65)}
    columns = [bytes_of.get(name, st.integers(-1, 3)) for name in fields]
    return st.lists(st.tuples(*columns).map(list), max_size=2)


@given(rows(RESIDENCY_FIELDS), rows(COPY_FIELDS))
def test_the_verifier_agrees(residencies: list[list[int]], copies: list[list[int]]) -> None:
    report = Report(PROGRAM)
    sound_residencies(PROGRAM, np.array(residencies, np.int64).reshape(-1, len(RESIDENCY_FIELDS)), report)
    sound_copies(PROGRAM, np.array(copies, np.int64).reshape(-1, len(COPY_FIELDS)), report)
    if not report.violations:
        check(residencies, copies)
        return
    with pytest.raises(FormatError):
        check(residencies, copies)
