"""Kernels of one's own (Pallas): what they reserve, where their arrays may lie, and their time in both cost models."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import BEFORE, assembled, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.hlo import read_module
from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.physics.cost import CYCLES, MSA, instruction_times
from mallocmuzero.env.physics.cycles import instruction_cycles
from mallocmuzero.env.program.program import OPERAND, Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify

# Three layers for v5e, compiled to the end: a norm that tells its cost and asks for 24 MiB (`vmem_limit_bytes`), a
# product; after the first, a kernel that tells no cost and wants its result in HBM.
KERNELS = Path(__file__).parent / "data" / "kernels" / "rms-v5e.tar.xz"


@pytest.fixture
def compilation(tmp_path: Path) -> Path:
    return unpacked(KERNELS, tmp_path)


@pytest.fixture
def program(compilation: Path) -> Program:
    return assembled(compilation)


def kernels(program: Program, name: str) -> list[int]:
    """Returns the instructions of the kernels of a name."""
    return [t for t, instruction in enumerate(program.instruction_names) if instruction.startswith(name)]


def test_xlas_mapping_reads_back_and_its_estimates_come_out(program: Program):
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, program.production) == []
    assert estimates_off(program, program.production) == pytest.approx(
        {"without_copies": 0.0, "with_copies": 0.0}, abs=1e-4
    )
    line = follow(MallocGame(program), program.production)
    assert np.array_equal(line.wanted, program.production.access_fast)


def test_a_kernel_reserves_what_it_asks_for(program: Program):
    for t in kernels(program, "rms"):
        assert program.reserved[t] == 24 * 2**20


def test_what_a_kernel_wants_in_hbm_may_not_be_fast(program: Program):
    (t,) = kernels(program, "copy_any")
    accesses = range(program.access_start[t], program.access_start[t + 1])
    operand, result = (int(program.access_buffer[a]) for a in accesses)
    assert program.fast_allowed[[operand, result]].tolist() == [True, False]
    assert program.access_kind[program.access_start[t]] == OPERAND


def test_what_must_be_in_fast_memory_is_refused(compilation: Path):
    text = (compilation / BEFORE).read_text(encoding="utf-8")
    assert '"output_memory_space_colors":[{"color":"0"' in text
    text = text.replace('"output_memory_space_colors":[{"color":"0"', '"output_memory_space_colors":[{"color":"1"')
    (compilation / BEFORE).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"kernel 'copy_any\S*' wants its result in memory 1, .* leave the choice"):
        assembled(compilation)


def test_a_kernel_costs_the_same_in_both_cost_models(compilation: Path):
    assembly = Assembly(compilation, GENERATIONS["v5e"], "rms", "rms")
    program = assembly.program(cycles=True)
    assert program.cycles is not None
    norms, (copy,) = kernels(program, "rms"), kernels(program, "copy_any")
    assert program.compiler["kernels"] == len(norms) + 1
    assert program.compiler["kernels_without_cost"] == 1
    row = program.cycles.row
    assert (row[norms] >= 0).all()
    assert row[copy] >= 0
    near = program.fast_allowed[program.access_buffer]
    for fast in (np.zeros(program.num_accesses, bool), near, near & (program.access_kind == OPERAND)):
        msa, cycles = (instruction_times(program, program.target, fast, model)[0] for model in (MSA, CYCLES))
        assert cycles[norms] == pytest.approx(msa[norms], abs=0.51 / program.target.clock_hz)
        assert cycles[copy] * program.target.clock_hz == pytest.approx(1)


def test_a_kernel_with_many_arrays_is_priced_exactly_under_every_placement(compilation: Path):
    program = Assembly(compilation, GENERATIONS["v5e"], "rms", "rms").program(cycles=True)
    assert program.cycles is not None
    (t, *_) = kernels(program, "rms")
    row = int(program.cycles.row[t])
    assert row in program.cycles.kernel_rows
    same = np.flatnonzero(program.cycles.row == row)
    # The other instructions of the row have fewer accesses than the widened one, so they leave it.
    alone = program.cycles.row.copy()
    alone[np.setdiff1d(same, [t])] = -1
    wide = replace(program, **_widened(program, t, 20), cycles=replace(program.cycles, row=alone))
    generator = np.random.default_rng(0)
    for share in (0.0, 0.2, 0.5, 0.8, 1.0):
        fast = (generator.random(wide.num_accesses) < share) & wide.fast_allowed[wide.access_buffer]
        msa, cycles = (instruction_times(wide, wide.target, fast, model)[0][t] for model in (MSA, CYCLES))
        assert cycles == pytest.approx(msa, abs=0.51 / wide.target.clock_hz)
        assert instruction_cycles(wide, fast)[1][t], "no compilation has to show it"


def _widened(program: Program, t: int, more: int) -> dict[str, object]:
    """Returns the access columns of a program in which instruction `t` reads its first operand `more` times."""
    at = int(program.access_start[t])
    rows = np.r_[: at + 1, [at] * more, at + 1 : program.num_accesses]
    return {
        "access_path": tuple(program.access_path[row] for row in rows),
        **{
            name: getattr(program, name)[rows]
            for name in ("access_instruction", "access_buffer", "access_kind", "access_number", "access_bytes")
        },
    }


def test_the_text_of_a_kernel_may_go_on_over_several_lines(tmp_path: Path):
    (tmp_path / "module.txt").write_text(
        "HloModule jit_f, is_scheduled=true\n\nENTRY %main (x: f32[8]) -> f32[8] {\n"
        "  %x = f32[8]{0} parameter(0)\n"
        '  ROOT %splash.1 = f32[8]{0} custom-call(%x), custom_call_target="tpu_custom_call", '
        "frontend_attributes={kernel_metadata={\n"
        '"xprof_metadata":"{\\"block_q\\": 128}"\n}}, metadata={op_name="splash"}\n}\n',
        encoding="utf-8",
    )
    root = read_module(tmp_path / "module.txt").entry.root
    assert root.operands == ("x",)
    assert root.attribute("custom_call_target") == '"tpu_custom_call"'
    assert root.attributes.endswith('metadata={op_name="splash"}')
