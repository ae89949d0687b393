"""A value that is written back and fetched again while no instruction of the program runs.

Recorded for tpu7x, with the versions of `packages.json`: the gradient of six layers of attention and a multilayer
perceptron under `lax.scan`, with `jax.checkpoint_policies.dots_saveable`.
"""

from pathlib import Path

import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.capture.same_problem import same_problem
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify


@pytest.fixture(scope="module")
def compilation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(SMALL.parent / "loop-end" / "remat-tpu7x.tar.xz", tmp_path_factory.mktemp("remat"))


def assembled(compilation: Path, like: Program | None = None) -> Program:
    return Assembly(compilation, GENERATIONS["tpu7x"], "remat", "remat", loop_ends=True, like=like).program()


@pytest.fixture(scope="module")
def program(compilation: Path) -> Program:
    return assembled(compilation)


def test_xlas_mapping_reads_back_and_its_estimates_come_out(program: Program) -> None:
    assert program.production is not None
    assert verify(program, program.target, program.production) == []
    assert estimates_off(program, program.production) == pytest.approx(
        {"without_copies": 0.0, "with_copies": 0.0}, abs=1e-5
    )


def test_the_instruction_between_the_copies_is_kept(program: Program) -> None:
    (pause,) = (t for t, opcode in enumerate(program.opcodes) if opcode == "get-tuple-element")
    assert program.access_start[pause] == program.access_start[pause + 1]
    assert program.production is not None
    rows = program.production.copies
    written = rows[(rows[:, 1] == WRITE_BACK) & (rows[:, 3] == pause)]
    fetched = rows[(rows[:, 1] == PREFETCH) & (rows[:, 2] == pause)]
    assert set(written[:, 0].tolist()) & set(fetched[:, 0].tolist())


def test_another_compilation_is_read_as_the_program_is(compilation: Path, program: Program) -> None:
    again = assembled(compilation, like=program)
    assert same_problem(program, again)
    assert again.production is not None
