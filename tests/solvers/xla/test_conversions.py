"""Synchronous copies that prefetches replace: where XLA does it, and where it lets them be."""

import dataclasses

import numpy as np
import pytest
from programs import TARGET, make_program

from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import Options

COUNTING = Options(typical_bytes=48, min_overlap=0.5, preferred_overlap=4.0, max_overlap=2.0, cross_program=0)
STEP_S = 0.24
INPUT = {"size": 24, "input": True}


def a_copy_and_its_use(
    keeps_layout: bool = True, fast_bytes: int = 128, more_reads: int = 0, later: int = 8
) -> Program:
    """Returns a program that copies its first input, and reads the copy after `later` instructions more."""
    names = [f"negate.{number}" for number in range(later)]
    chain = [f"n{number}" for number in range(later)]
    instructions = [
        ("copy", STEP_S, ["p0"], ["c"]),
        *((name, STEP_S, [before], [after]) for name, before, after in zip(names, ["p1", *chain], chain, strict=False)),
        ("add", STEP_S, ["c", chain[-1]], ["a"]),
        *((f"subtract.{number}", STEP_S, ["c", "a"], [f"s{number}"]) for number in range(more_reads)),
    ]
    sizes = {"p0": INPUT, "p1": INPUT, "c": 24, **dict.fromkeys(chain, 24), "a": {"size": 24, "output": True}}
    sizes |= {f"s{number}": {"size": 24, "output": True} for number in range(more_reads)}
    keeps = np.array([name == "copy" and keeps_layout for name, *_ in instructions])
    return make_program(instructions, sizes, dataclasses.replace(TARGET, fast_bytes=fast_bytes), keeps_layout=keeps)


def decoded(program: Program) -> Mapping:
    mapping = Decoder(program, None, COUNTING).decode()
    assert verify(program, program.target, mapping) == []
    return mapping


def replacing(program: Program, mapping: Mapping) -> list[tuple[str, str, int, int]]:
    """Returns what is made, what is read, the start and the end of copies that replace an instruction."""
    rows = mapping.copies[mapping.copies[:, 7] >= 0].tolist()
    assert all(row[7] == program.instruction_names.index("copy") for row in rows)
    return [(program.buffer_names[row[0]], program.buffer_names[row[6]], row[2], row[3]) for row in rows]


def test_a_copy_becomes_a_prefetch_of_what_it_reads() -> None:
    program = a_copy_and_its_use()
    ((made, read, start, end),) = replacing(program, decoded(program))
    assert (made, read) == ("c", "p0")
    # Before the addition, and from where the input is: the copy's own instruction moves nothing.
    assert 0 <= start < end == program.instruction_names.index("add")


@pytest.mark.parametrize(
    "program",
    [a_copy_and_its_use(keeps_layout=False), a_copy_and_its_use(fast_bytes=16), a_copy_and_its_use(more_reads=1)],
    ids=["that changes the layout", "without memory", "that is read at two times"],
)
def test_a_copy_stays_as_it_is(program: Program) -> None:
    assert replacing(program, decoded(program)) == []
