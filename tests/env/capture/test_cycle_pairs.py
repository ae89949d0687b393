"""The code generator's cycles: read by instruction and placement, shared by identical computations."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from committed import MOST

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.cycle_pairs import Canonical
from mallocmuzero.env.capture.hlo import Module, read_module
from mallocmuzero.env.capture.loops import flatten
from mallocmuzero.env.physics.cycles import instruction_cycles
from mallocmuzero.env.program.program import RESULT
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.workloads import load

SMALL = Path(__file__).parent / "data" / "small"


def canonical(module: Module, name: str) -> str:
    instructions = flatten(module).instructions
    instruction = instructions[name]
    return Canonical(module).instruction(instruction, [instructions[o].shape for o in instruction.operands])


def edited(folder: Path, *edits: tuple[str, str]) -> Path:
    """Returns a copy of the recorded compiled text after substitutions, each of which must change something."""
    text = (SMALL / "compiled.txt").read_text(encoding="utf-8")
    for pattern, replacement in edits:
        text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
        assert count, pattern
    (folder / "compiled.txt").write_text(text, encoding="utf-8")
    return folder / "compiled.txt"


def test_identical_computations_have_one_text():
    module = read_module(SMALL / "compiled.txt")
    layer = canonical(module, "convolution_tanh_fusion.4")
    assert layer == canonical(module, "convolution_tanh_fusion.3")
    assert layer != canonical(module, "convolution_tanh_fusion.5")  # slices its operand first
    assert layer != canonical(module, "fusion")


def test_names_spaces_and_notes_do_not_matter(tmp_path: Path):
    same = read_module(
        edited(
            tmp_path,
            (r"S\(1\)", ""),
            (r"%param_0\.14\b", "%another.name"),
            (r"%fused_computation\.6\b", "%some_other_computation"),
            (r"(calls=%some_other_computation)$", r'\1, metadata={op_name="a{b" id=1}, backend_config={"cycles":"9"}'),
        )
    )
    name = "convolution_tanh_fusion.4"
    assert canonical(same, name) == canonical(read_module(SMALL / "compiled.txt"), name)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"^(  %convolution_tanh_fusion\.4 = bf16\[)1024", r"\g<1>512"),
        (r"(%convolution_tanh_fusion\.4 = .*kind=)kOutput", r"\1kLoop"),
        (r"(%param_0\.14 = bf16\[1024,2048\]\{)1,0", r"\g<1>0,1"),
    ],
)
def test_what_is_computed_matters(tmp_path: Path, pattern: str, replacement: str):
    name = "convolution_tanh_fusion.4"
    other = read_module(edited(tmp_path, (pattern, replacement)))
    assert canonical(other, name) != canonical(read_module(SMALL / "compiled.txt"), name)


def cycles(name: str, value: int) -> tuple[str, str]:
    return (
        rf"^(  %{re.escape(name)} = .*)$",
        rf'\1, backend_config={{"window_config":{{"estimated_cycles":"{value}"}}}}',
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    copied = Path(shutil.copytree(SMALL, tmp_path / "small"))
    edited(
        copied,
        cycles("convolution_tanh_fusion.4", 100),
        cycles("convolution_tanh_fusion.3", 100),
        cycles("fusion", 30),
        cycles("copy-start", 7),
    )
    return copied


def test_pairs_of_two_compilations(folder: Path):
    assembly = Assembly(folder, GENERATIONS["v5e"], "small", "small")
    # A second placement: the second layer's result is left in HBM, and is dearer for it.
    text = (folder / "compiled.txt").read_text(encoding="utf-8")
    layer = "%convolution_tanh_fusion.4 = bf16[1024,2048]{1,0:T(8,128)(2,1)S(1)}"
    assert layer in text
    lines = [
        line.replace("S(1)}", "}", 1).replace('"100"', '"150"') if layer in line else line for line in text.splitlines()
    ]
    (folder / "compiled.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = assembly.add_cycles(folder)
    assert counts == {"instructions": 3, "cycles": 280, "other_cycles": 7, "pairs": 3, "new": 2}
    program = assembly.program(variants=True)
    table = program.cycles
    assert table is not None
    index = [program.instruction_names.index(f"convolution_tanh_fusion.{number}") for number in (4, 3)]
    assert table.row[index].tolist() == [0, 0]
    assert sorted(set(table.row.tolist())) == [-1, 0, 1]
    assert (table.compilations, table.ambiguous) == (2, 0)
    # Operands fast; result fast too; the third layer reads HBM in the second compilation.
    assert sorted(zip(table.pair_row.tolist(), table.pair_fast, table.pair_cycles.tolist(), strict=True)) == [
        (0, 0b011, 150),
        (0, 0b110, 100),
        (0, 0b111, 100),
        (1, 0b0111, 30),
    ]
    assert program.compiler["cycles"] == {"program": 230, "other_instructions": 7}
    assert program.production is not None
    assert instruction_cycles(program, program.production.access_fast)[0].sum() == 230
    accesses = np.flatnonzero((program.access_instruction == index[0]) & (program.access_kind == RESULT))
    elsewhere = program.production.access_fast.copy()
    elsewhere[accesses] = False
    assert instruction_cycles(program, elsewhere)[0].sum() == 280


def test_two_values_of_a_pair(folder: Path):
    assembly = Assembly(folder, GENERATIONS["v5e"], "small", "small")
    text = (folder / "compiled.txt").read_text(encoding="utf-8")
    (folder / "compiled.txt").write_text(text.replace('"30"', '"31"'), encoding="utf-8")
    assembly.add_cycles(folder)
    table = assembly.program(variants=True).cycles
    assert table is not None
    assert table.ambiguous == 1
    assert table.pair_cycles.tolist() == [100, 30]


def test_an_instruction_that_computes_something_else_adds_nothing(folder: Path):
    assembly = Assembly(folder, GENERATIONS["v5e"], "small", "small")
    text = (folder / "compiled.txt").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith("  %fusion = "))
    changed = line.replace("kind=kOutput", "kind=kLoop").replace('"30"', '"3"')
    (folder / "compiled.txt").write_text(text.replace(line, changed), encoding="utf-8")
    assert assembly.add_cycles(folder)["new"] == 0
    assert assembly.pairs.changed == 1
    table = assembly.program(variants=True).cycles
    assert table is not None
    assert table.pair_cycles.tolist() == [100, 30]


def test_one_compilation_makes_no_table(folder: Path):
    assert Assembly(folder, GENERATIONS["v5e"], "small", "small").program().cycles is None


@pytest.mark.parametrize("name", MOST)
def test_the_sum_of_cycles_is_that_of_the_compiled_module(name: str):
    """The table, asked for XLA's own placement, gives what the compiler said of it, to the cycle.

    It says nothing of kernels, which the table prices as `msa` does, of the largest only a sample of the placements.
    """
    program = load(name)
    assert program.production is not None
    if program.cycles is None:
        assert "cycles" not in program.compiler
        pytest.skip("compiled only until memory is assigned")
    each, seen = instruction_cycles(program, program.production.access_fast)
    stays = np.setdiff1d(np.arange(program.num_instructions), program.production.copies[:, 7])
    kernels = [t for t in stays if re.match("flash_(attention|mha_bwd)", program.instruction_names[t])]
    assert len(kernels) == program.compiler.get("kernels", 0)
    stays = np.setdiff1d(stays, kernels)
    assert seen[stays].all()
    assert program.cycles.ambiguous == 0
    assert each[stays].sum() == program.compiler["cycles"]["program"] > 0
