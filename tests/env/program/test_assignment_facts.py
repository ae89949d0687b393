"""What captures keep of the compiler's own assignment: it comes out as it went in, and a wrong one is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mallocmuzero.env.errors import FormatError
from mallocmuzero.env.program.assignment_facts import (
    ASSIGNMENT,
    LOOP_TIMES,
    AssignmentFacts,
    assignment_entry,
    assignment_facts,
    without_facts,
)
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.xla.decoder import Decoder


@pytest.fixture(scope="module")
def program() -> Program:
    return load("gru-train-b32-s64")


def with_entry(program: Program, **changes: Any) -> Program:
    """Returns a program whose facts differ."""
    return replace(program, compiler=program.compiler | {ASSIGNMENT: program.compiler[ASSIGNMENT] | changes})


def test_facts_survive_a_file(program: Program, tmp_path: Path) -> None:
    write_program(program, tmp_path / "program.json.gz")
    back = read_program(tmp_path / "program.json.gz")
    facts, kept = assignment_facts(back), assignment_facts(program)
    assert facts
    assert kept
    assert assignment_entry(facts) == assignment_entry(kept) == program.compiler[ASSIGNMENT]
    assert back.sha256 == replace(program, compiler={}).sha256


def test_what_loops_read_may_be_missing(program: Program) -> None:
    entry = dict(program.compiler[ASSIGNMENT])
    del entry["loop_operands"]
    facts = assignment_facts(replace(program, compiler=program.compiler | {ASSIGNMENT: entry}))
    assert facts
    assert facts.loop_operands == []


def test_a_program_without_facts_is_decoded_all_the_same(program: Program) -> None:
    without = without_facts(program)
    assert assignment_facts(without) is None
    assert Decoder(without).decode().access_fast.any()


def test_facts_of_nothing() -> None:
    none, times = np.empty(0, np.int64), np.empty((0, len(LOOP_TIMES)), np.int64)
    facts = AssignmentFacts(None, 3, none, none, {}, times, {}, {}, np.empty((0, 2), np.int64), [], [])
    assert assignment_entry(facts)["loops"] == {key: [] for key in LOOP_TIMES}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end": None}, "is not what `capture` writes"),
        ({"slices": {"buffer": [0], "bytes": []}}, "is not what `capture` writes"),
        ({"typical_copy_s": -1.0}, "has `typical_copy_s` -1.0"),
        ({"typical_copy_s": float("nan")}, "has `typical_copy_s` nan"),
        ({"order": [1, 1]}, "names a buffer in `order` twice"),
        ({"order": [1 << 20]}, "one that the program does not have"),
        ({"slices": {"buffer": [0], "bytes": [[1, 1]]}}, r"has `slices` \(1, 1\) of buffer 0"),
        ({"slices": {"buffer": [1 << 20], "bytes": [[]]}}, "has `slices`"),
        ({"views": {"buffer": [-1], "time": [3]}}, "names a buffer in `views`"),
        ({"passed": [[-1, 3]]}, "names a buffer in `passed`"),
        ({"loop_bytes": [[0, -1, 3]]}, "names a loop or a buffer in `loop_bytes`"),
        ({"idle": [-1]}, "has a time in `idle`"),
        ({"idle": 5}, "5 is no list"),
        ({"idle": [10**30]}, "is not what `capture` writes .*too large"),
        ({"idle": [1.5]}, "1.5 is no whole number"),
        ({"end": "7000"}, "'7000' is no whole number"),
        ({"end": 1 << 40}, "an `end` that are not those of the program"),
        ({"order": [True]}, "True is no whole number"),
        ({"typical_copy_s": "1.0"}, "'1.0' is no number"),
        ({"typical_copy_s": 10**400}, "is not what `capture` writes"),
        ({"passed": [[0, 1 << 40]]}, "has a time in `passed`"),
        ({"views": {"buffer": [0], "time": [-3]}}, "has a time in `views`"),
        ({"supply": [[-1, 0.5]]}, "has a time in `supply`"),
        ({"supply": [[0, 10**400]]}, "is not what `capture` writes"),
        ({"loop_bytes": [[0, 0, -1]]}, "has bytes below 0 in `loop_bytes`"),
        ({"supply": [[0, -0.5]]}, "has `supply`"),
        ({"loop_operands": [[99, 0, "while", "{0}"]]}, "names a loop or a buffer in `loop_operands`"),
        ({"loop_operands": [[0, -1, "while", "{0}"]]}, "names a loop or a buffer in `loop_operands`"),
        ({"loop_operands": [[0, 0, 7, "{0}"]]}, "7 is no text"),
        ({"loop_operands": [[0, 0]]}, "is not what `capture` writes"),
        ({"loops": {key: [] for key in LOOP_TIMES}}, "has times in `loops`"),
        ({"end": 1, "idle": []}, "has times in `loops` or an `end`"),
    ],
)
def test_wrong_facts_are_refused(program: Program, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError, match=message) as error:
        assignment_facts(with_entry(program, **changes))
    assert "capture it again" in str(error.value)
    assert program.name in str(error.value)
