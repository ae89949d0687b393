"""Scatters: one that is fused again updates its operand in place, one on another core returns what may be fast later.

Recorded for v5e and tpu7x, with the versions of `packages.json`: eight experts by `jax.lax.ragged_dot`, two for each of
4,096 rows. Their results are added to the rows. The program of tpu7x returns that, the one of v5e the gradient of its
mean square.
"""

from pathlib import Path
from typing import Any

import numpy as np
from compiler_cases import BEFORE, SMALL, unpacked

from mallocmuzero.env.capture.alias import alias_groups
from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.hlo import read_module
from mallocmuzero.env.capture.log import read_log
from mallocmuzero.env.capture.same_problem import same_problem
from mallocmuzero.env.capture.values import Values
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify


def recorded(name: str, target: str, folder: Path) -> Program:
    unpacked(SMALL.parent / "scatters" / f"{name}.tar.xz", folder)
    return Assembly(folder, GENERATIONS[target], "experts", "experts", loop_ends=True).program()


def buffers_of(program: Program, instruction: str, kind: int) -> set[int]:
    t = program.instruction_names.index(instruction)
    mine = (program.access_instruction == t) & (program.access_kind == kind)
    return set(program.access_buffer[mine].tolist())


def test_a_scatter_in_two_fusions_updates_its_operand_in_place(tmp_path: Path) -> None:
    program = recorded("experts-train-v5e", "v5e", tmp_path)
    assert program.production is not None
    assert verify(program, program.target, program.production) == []
    scatters = [name for name in program.instruction_names if name.startswith("scatter_custom_fusion")]
    # The other scatters read operands that the compiler places by themselves.
    assert [name for name in scatters if buffers_of(program, name, RESULT) <= buffers_of(program, name, OPERAND)]


def test_a_program_of_an_earlier_capture_is_read_as_it_was(tmp_path: Path) -> None:
    """Captures used to overlook such updates: their results were buffers of their own."""
    folder = unpacked(SMALL.parent / "scatters" / "experts-train-v5e.tar.xz", tmp_path)
    module = read_module(folder / BEFORE)
    values, log = Values(module), read_log(folder / "log.txt")
    now, then = alias_groups(module, values, log), alias_groups(module, values, log, apart=None)
    found = {name for name, path in now.keys() - then.keys() if name.startswith("scatter_custom_fusion")}
    assert found
    assert alias_groups(module, values, log, apart=found) == then


def test_what_another_core_has_scattered_may_be_fetched(tmp_path: Path) -> None:
    program = recorded("experts-tpu7x", "tpu7x", tmp_path)
    assert program.production is not None
    assert verify(program, program.target, program.production) == []
    (done,) = (name for name in program.instruction_names if name.startswith("scatter_offload_async_done"))
    (counts,) = buffers_of(program, done, RESULT)
    assert program.fast_allowed[counts]
    assert program.hbm_accesses is not None
    reads = (program.access_buffer == counts) & (program.access_kind == OPERAND) & ~program.hbm_accesses
    assert np.count_nonzero(program.production.access_fast & reads)


def test_candidates_are_the_same_problem_wherever_they_have_it(tmp_path: Path) -> None:
    folder = unpacked(SMALL.parent / "scatters" / "experts-tpu7x.tar.xz", tmp_path)

    def assembled(**settings: Any) -> Program:
        return Assembly(folder, GENERATIONS["tpu7x"], "experts", "experts", **settings).program()

    program = assembled(loop_ends=True)
    log = folder / "log.txt"
    text = log.read_text()
    lines = text.splitlines(keepends=True)
    fetched = [
        line for line in lines if "Post-Processing: Copy Allocation in alt" in line and "scatter_offload" in line
    ]
    assert fetched
    log.write_text("".join(line for line in lines if line not in fetched))
    left = assembled(loop_ends=True)
    assert not same_problem(program, left)
    assert same_problem(program, assembled(like=program))
    log.write_text(text)
    assert same_problem(left, assembled(like=left))
