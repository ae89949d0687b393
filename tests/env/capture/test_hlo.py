"""The text of HLO modules: arrays, instructions, and errors about text that is none."""

from pathlib import Path

import pytest
from compiler_cases import BEFORE, assembled, truncate

from mallocmuzero.env.capture.hlo import Computation, Module, Shape, parse_instruction, read_module
from mallocmuzero.env.errors import FormatError


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("bf16[512,1024]{1,0:T(8,128)(2,1)S(1)}", ("bf16", "1,0", "T(8,128)(2,1)")),
        ("bf16[16,1024]{1,0:T(8,128)(2,1)}", ("bf16", "1,0", "T(8,128)(2,1)")),
        ("bf16[512,1024]{0,1:T(8,128)(2,1)}", ("bf16", "0,1", "T(8,128)(2,1)")),
        ("f32[8]{0:S(1)}", ("f32", "0", "")),
        ("f32[8]{0}", ("f32", "0", "")),
        ("f32[]", ("f32", "", "")),
    ],
)
def test_the_layout_of_an_array(text: str, layout: tuple[str, str, str]):
    assert Shape(text).layout == layout


def test_instruction_with_tuples_comments_and_layouts():
    instruction = parse_instruction(
        "  ROOT %f.1 = (bf16[2,3]{1,0:T(8,128)(2,1)S(1)}, /*index=1*/(f32[], u32[]{:S(2)})) fusion(%a.1, /*index=1*/%b)"
        ', kind=kLoop, calls=%c.2, metadata={op_name="x(y"}'
    )
    assert instruction is not None
    assert (instruction.name, instruction.opcode, instruction.operands) == ("f.1", "fusion", ("a.1", "b"))
    assert [(path, leaf.memory_space) for path, leaf in instruction.shape.leaves()] == [
        ((0,), 1),
        ((1, 0), 0),
        ((1, 1), 2),
    ]
    assert instruction.attribute("calls") == "%c.2"
    assert instruction.is_root
    assert parse_instruction("  %x = f32[ broken") is None


def test_what_shares_memory():
    told = "output_to_operand_aliasing={{}: (1, {}), {1, 0}: (12, {2})}"
    instruction = parse_instruction(f'  %f = f32[8] fusion(%a), kind=kLoop, {told}, backend_config={{"a":{{"b":"c"}}}}')
    assert instruction is not None
    assert instruction.in_place == {(): (1, ()), (1, 0): (12, (2,))}
    alone = parse_instruction("  %f = f32[8] fusion(%a), kind=kLoop")
    assert alone is not None
    assert alone.in_place == {}
    header = "HloModule f, is_scheduled=true, HERE entry_computation_layout={(f32[8]{0})->f32[8]{0}}"
    aliased = "input_output_alias={ {}: (0, {}, may-alias), {1}: (3, {0}, must-alias) },"
    for here, donated in ((aliased, {(): (0, ()), (1,): (3, (0,))}), ("", {})):
        module = Module(Path(), header.replace("HERE", here), {}, Computation("f", [], Path()))
        assert module.donated == donated


def test_no_hlo(folder: Path):
    (folder / BEFORE).write_text("not a module\n", encoding="utf-8")
    with pytest.raises(FormatError, match="is no HLO: its first line does not start with `HloModule`"):
        assembled(folder)
    (folder / BEFORE).write_bytes(b"HloModule \xff\xfe\x00")
    with pytest.raises(FormatError, match="is no HLO"):
        assembled(folder)


def test_truncated_module(folder: Path):
    truncate(folder / BEFORE, "ROOT %tuple.2")
    with pytest.raises(FormatError, match="truncated"):
        assembled(folder)


def test_line_that_is_no_instruction(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", "copy(%x.1"), encoding="utf-8")
    with pytest.raises(FormatError, match="has a line that is no HLO"):
        assembled(folder)


def test_unscheduled_module(tmp_path: Path):
    path = tmp_path / "module.txt"
    path.write_text("HloModule f\n\nENTRY %main () -> f32[] {\n  ROOT %c = f32[] constant(0)\n}\n", encoding="utf-8")
    with pytest.raises(FormatError, match="not scheduled"):
        read_module(path)
