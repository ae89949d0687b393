"""What a mapping asks of the compiler: when prefetches start, for instructions and for loops."""

from dataclasses import replace

import numpy as np
import pytest
from compiler_cases import small_program
from programs import make_mapping

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.assignment_facts import ASSIGNMENT
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.encoding import Codec
from mallocmuzero.roundtrip.wanted import prefetch_starts


@pytest.fixture(scope="module")
def program() -> Program:
    """Two matrices of 16 MiB are prefetched before a loop that reads them in every pass."""
    return load("lstm-b128-s64-v4")


def matrix_use(codec: Codec) -> int:
    """Returns the place in `starts` of the loop's use of the second matrix."""
    (buffer,) = (b for b, name in enumerate(codec.program.buffer_names) if name == "linear____w__.3")
    (use,) = np.flatnonzero(codec.by_loops[:, 1] == buffer)
    return codec.program.num_accesses + int(use)


def test_a_prefetch_serves_the_next_read() -> None:
    program = small_program()
    mapping = make_mapping(program, [("c.2", "x")], [("x", 1, 2, 0)], [{"buffer": "x", "start": 0, "end": 2}])
    assert prefetch_starts(Codec(make_judge(program), 0), mapping).tolist() == [-1, -1, -1, -1, -1, 0, -1]


def test_a_prefetch_before_a_loop_serves_the_loop(program: Program) -> None:
    codec = Codec(make_judge(program), 0)
    at = matrix_use(codec)
    for start in (2, 5):
        starts = codec.default().starts.copy()
        starts[at] = start
        encoding = replace(codec.default(), starts=starts)
        assert encoding.kind == "starts"
        mapping = codec.decode(encoding)
        found = prefetch_starts(codec, mapping)
        assert found[at] == start
        # The start is the loop's alone, not that of the read in its body.
        inside = (program.access_buffer == codec.started[at]) & mapping.access_fast
        assert inside.any()
        assert (found[: program.num_accesses][inside] < 0).all()
        assert 'instruction_name_regex: "while' in str(codec.options(encoding))


def test_without_names_of_loops_the_read_in_the_body_is_asked_for(program: Program) -> None:
    entry = {key: value for key, value in program.compiler[ASSIGNMENT].items() if key != "loop_operands"}
    older = replace(program, compiler=program.compiler | {ASSIGNMENT: entry})
    codec = Codec(make_judge(older), 0)
    assert not codec.startable[older.num_accesses :].any()
    assert older.production is not None
    found = prefetch_starts(codec, older.production)
    assert (found[older.num_accesses :] < 0).all()
    assert (found[program.access_buffer.tolist().index(codec.started[matrix_use(codec)])]) >= 0
