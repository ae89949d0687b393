"""Loops whose last instruction writes what the next pass reads: a copy of it is done by the end of the pass."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.capture.same_problem import same_problem
from mallocmuzero.env.program.mapping import WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import solve

# A step for v6e that adds up the gradients of four microbatches under `lax.scan`, compiled until memory is assigned.
SUMS = SMALL.parent / "loop-end" / "sums-v6e.tar.xz"


@pytest.fixture(scope="module")
def compilation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(SUMS, tmp_path_factory.mktemp("sums"))


def assembled(compilation: Path, loop_ends: bool | None = None, like: Program | None = None) -> Program:
    return Assembly(compilation, GENERATIONS["v6e"], "sums", "sums", loop_ends=loop_ends, like=like).program()


def has_loop_ends(program: Program) -> bool:
    return any(program.opcodes[last] == "tuple" for last in program.loop_last.tolist())


@pytest.fixture(scope="module")
def program(compilation: Path) -> Program:
    return assembled(compilation)


def test_xlas_mapping_reads_back_and_its_estimates_come_out(program: Program) -> None:
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, program.production) == []
    assert estimates_off(program, program.production) == pytest.approx(
        {"without_copies": 0.0, "with_copies": 0.0}, abs=1e-5
    )


def test_a_write_back_ends_with_the_pass(program: Program) -> None:
    (last,) = program.loop_last
    assert has_loop_ends(program)
    assert program.access_start[last] == program.access_start[last + 1]
    rows = program.production.copies
    ending = rows[(rows[:, 1] == WRITE_BACK) & (rows[:, 2] == last - 1) & (rows[:, 3] == last)]
    assert len(ending)


def test_without_the_end_it_cannot_be_told(compilation: Path) -> None:
    program = assembled(compilation, loop_ends=False)
    assert not has_loop_ends(program)
    assert program.production is None
    assert set(program.compiler["inexpressible"]) == {"violation: loop-content"}


def test_another_compilation_is_read_as_the_program_is(compilation: Path, program: Program) -> None:
    without = assembled(compilation, loop_ends=False)
    assert same_problem(program, assembled(compilation, like=program))
    assert same_problem(without, assembled(compilation, like=without))
    assert not same_problem(program, without)


def test_the_compiler_may_make_the_end_anew(compilation: Path, program: Program, tmp_path: Path) -> None:
    (last,) = program.loop_last
    end = program.instruction_names[last]
    shutil.copytree(compilation, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "compiled.txt").read_text()
    assert f"ROOT %{end} = " in text
    (tmp_path / "compiled.txt").write_text(text.replace(f"ROOT %{end} = ", "ROOT %tuple.99 = "))
    log = (tmp_path / "log.txt").read_text()
    assert f"instruction: {end}; " in log
    (tmp_path / "log.txt").write_text(log.replace(f"instruction: {end}; ", "instruction: tuple.99; "))
    anew = assembled(tmp_path)
    assert anew.production is not None
    assert program.production is not None
    assert np.array_equal(anew.production.copies, program.production.copies)
    assert estimates_off(anew, anew.production) == estimates_off(program, program.production)


def test_other_programs_have_none(tmp_path: Path) -> None:
    assert not has_loop_ends(Assembly(SMALL, GENERATIONS["v5e"], "small", "small").program())


@pytest.mark.parametrize("solver", ["xla", "anneal"])
def test_solvers_take_it(program: Program, solver: str) -> None:
    solution = solve(program, solver, budget=Budget(None, 50))
    assert verify(program, program.target, solution.mapping) == []
    assert np.isfinite(solution.judged_s)
