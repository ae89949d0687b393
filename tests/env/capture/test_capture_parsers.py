"""Reading the compiler's dumps and log: what they say, and what is said about bad ones."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from mallocmuzero.env.capture.allocation import parse_allocation
from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.hlo import Shape, parse_instruction, read_module
from mallocmuzero.env.capture.log import parse_log, read_log
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, WRITE_BACK
from mallocmuzero.env.program.program import RESULT, Program
from mallocmuzero.env.program.residencies import fit_to_loops, merge_residencies
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from printed_estimate import with_copies, without_copies

# A real compilation of nine instructions: slices, a cross-program prefetch, a slice replaced by a copy.
SMALL = Path(__file__).parent / "data" / "small"
LOOP = Path(__file__).parent / "data" / "loop"
BEFORE = "module.after_optimizations_before_buffer_assignment.txt"


def read(folder: Path) -> Program:
    return Assembly(folder, GENERATIONS["v5e"], "small", "small").program()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "small"))


def truncate(path: Path, marker: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert marker in text
    path.write_text(text[: text.index(marker)], encoding="utf-8")


def test_a_compilation_becomes_a_program():
    program = read(SMALL)
    assert program.instruction_names[:2] == ("convolution_tanh_fusion.5", "convolution_tanh_fusion.4")
    assert program.schedule_index.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert program.buffer_names[:2] == ("w.1", "x.1")
    assert program.size[:2].tolist() == [2048 * 2048 * 2, 4096 * 2048 * 2]
    assert program.definition[:2].tolist() == [-1, -1]
    assert program.is_output.sum() == 3
    assert program.fast_allowed.all()
    production = program.production
    assert production is not None
    assert verify(program, program.target, production) == []
    crossing = production.copies[production.copies[:, 1] == CROSS_PROGRAM]
    assert crossing[:, [0, 2]].tolist() == [[0, -1]]
    slices = production.copies[(production.copies[:, 0] == 1)][:, [4, 5]]
    assert slices.tolist() == [[i * 2**22, (i + 1) * 2**22] for i in range(4)]
    replacing = production.copies[production.copies[:, 7] >= 0]
    assert [program.instruction_names[i] for i in replacing[:, 7]] == ["slice.4"]
    assert [program.buffer_names[b] for b in replacing[0, [0, 6]]] == ["slice.4", "x.1"]
    assert program.keeps_layout is not None
    assert [program.instruction_names[t] for t in np.flatnonzero(program.keeps_layout)] == ["slice.4", "copy.1"]
    printed = program.compiler["estimate_without_copies_s"], program.compiler["estimate_with_copies_s"]
    assert (without_copies(program, production), with_copies(program, production)) == pytest.approx(printed, rel=1e-5)


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


def test_a_transposing_copy_does_not_keep_its_layout(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "%slice.4 = " in line]
    changed = line.replace("{1,0:", "{0,1:", 1)
    assert changed != line
    (folder / BEFORE).write_text(text.replace(line, changed), encoding="utf-8")
    program = read(folder)
    assert program.keeps_layout is not None
    assert [program.instruction_names[t] for t in np.flatnonzero(program.keeps_layout)] == ["copy.1"]
    assert program.production is None
    assert program.compiler["inexpressible"]["violation: replaces"] == 1


def test_no_hlo(folder: Path):
    (folder / BEFORE).write_text("not a module\n", encoding="utf-8")
    with pytest.raises(FormatError, match="is no HLO: its first line does not start with `HloModule`"):
        read(folder)
    (folder / BEFORE).write_bytes(b"HloModule \xff\xfe\x00")
    with pytest.raises(FormatError, match="is no HLO"):
        read(folder)


def test_truncated_module(folder: Path):
    truncate(folder / BEFORE, "ROOT %tuple.2")
    with pytest.raises(FormatError, match="truncated"):
        read(folder)


def test_line_that_is_no_instruction(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", "copy(%x.1"), encoding="utf-8")
    with pytest.raises(FormatError, match="has a line that is no HLO"):
        read(folder)


def test_unscheduled_module(tmp_path: Path):
    path = tmp_path / "module.txt"
    path.write_text("HloModule f\n\nENTRY %main () -> f32[] {\n  ROOT %c = f32[] constant(0)\n}\n", encoding="utf-8")
    with pytest.raises(FormatError, match="not scheduled"):
        read_module(path)


def test_missing_dump(folder: Path):
    (folder / "compiled.txt").unlink()
    with pytest.raises(FormatError, match=r"has 0 files `compiled\.txt`"):
        read(folder)


def test_sizes_of_another_kind(folder: Path):
    (folder / "module.after_optimizations-buffer-assignment.txt").write_text("BufferAssignment:\n", encoding="utf-8")
    with pytest.raises(FormatError, match="no buffer assignment"):
        read(folder)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("Initial resource[0]", "no `Initial resource` lines"),
        ("Debug buffer info", "no `buffer_id,.*` lines"),
        ("Estimated elapsed time without", "no `Post-Processing` lines"),
        ("Estimated elapsed time with async", "no `Estimated elapsed time with async copies` lines"),
    ],
)
def test_truncated_log(folder: Path, marker: str, message: str):
    truncate(folder / "log.txt", marker)
    with pytest.raises(FormatError, match=message):
        read(folder)


def test_log_of_another_compilation(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    (folder / "log.txt").write_text(text.replace("pad_maximum_fusion", "another_fusion"), encoding="utf-8")
    with pytest.raises(FormatError, match="has no instruction 'another_fusion'"):
        read(folder)
    with pytest.raises(FormatError, match="cannot be read"):
        read_log(folder / "nothing.txt")


def test_conditionals_are_refused(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", "conditional(%x.1)"), encoding="utf-8")
    with pytest.raises(UserError, match=r"'copy.1' is a `conditional`, which capture does not understand yet"):
        read(folder)


def test_a_loop_without_its_body(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", "while(%x.1), condition=%c, body=%b"), encoding="utf-8")
    with pytest.raises(FormatError, match=r"the condition of loop 'copy.1' is missing"):
        read(folder)


def test_a_loop_becomes_a_loop():
    """`jax.lax.scan` over twelve matrix products: the carried value is one buffer with several results."""
    program = read(LOOP)
    assert program.loop_trips.tolist() == [12]
    inside = range(program.loop_first[0], program.loop_last[0] + 1)
    assert [program.instruction_names[t] for t in inside] == [
        "lt.3",
        "copy.5",
        "add.5",
        "copy.18",
        "dynamic_update_slice.6",
        "fusion.12",
    ]
    carried = program.buffer_names.index("copy.16")
    results = (program.access_buffer == carried) & (program.access_kind == RESULT)
    written = [program.instruction_names[t] for t in program.access_instruction[results]]
    assert written == ["copy.16", "fusion.12"]
    assert program.is_output[carried]
    production = program.production
    assert production is not None
    assert verify(program, program.target, production) == []
    resident = production.residencies[production.residencies[:, 0] == carried]
    assert resident[:, [1, 2]].tolist() == [[0, program.num_instructions - 1]]
    back = production.copies[production.copies[:, 1] == WRITE_BACK]
    assert back[:, 2].tolist() == [program.loop_last[0]] * 2
    assert without_copies(program, production) == pytest.approx(program.compiler["estimate_without_copies_s"], rel=1e-5)


def test_a_residency_that_a_loop_cuts():
    program = read(LOOP)
    first, last = int(program.loop_first[0]), int(program.loop_last[0])
    carried = [[0, first - 1, first + 1, 0, 0, 64], [0, last, last, 0, 0, 64]]
    found: Counter[str] = Counter()
    assert fit_to_loops(np.array(carried), program, found, set()).tolist() == [[0, first - 1, last, 0, 0, 64]]
    assert not found
    between = [1, first + 2, first + 2, 0, 0, 64]
    fit_to_loops(np.array([*carried, between]), program, found, {(0, last)})
    assert found["residency that a loop's border cuts"] > 0


def test_a_mapping_that_breaks_the_rules_is_left_out(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    # One buffer at the place of another.
    changed = text.replace(
        "alt (off: 25165824, size: 4194304), start_time:8", "alt (off: 0, size: 4194304), start_time:8"
    )
    (folder / "log.txt").write_text(changed, encoding="utf-8")
    program = read(folder)
    assert program.production is None
    assert program.compiler["inexpressible"] == {"violation: overlap": 1}


def test_the_last_run_in_a_log_counts(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    start = text.index("I0101 00:00:00.000000 1 memory_space_assignment.cc:362]")
    twice = text[: text.index("Post-Processing")] + "\n" + text[start:]
    assert parse_log(twice.splitlines()) == parse_log(text.splitlines())


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


def test_allocation_with_history():
    allocation = parse_allocation(
        "Copy Allocation in alt (off: 4096, size: 2048), start_time:5, end_time:9, copy_start_after_time: 4, "
        "copy_done_before_time: 7, uses: fusion.1, operand 0,call.2, operand 3 {1,0}, "
        "existing sync_mem_op: slice.4, existing copy_start: copy-start.2, existing copy_done: copy-done.2, "
        "from Copy Allocation in def, start_time:2, end_time:4, copy_start_after_time: 1, copy_done_before_time: 3, "
        "uses: none, existing sync_mem_op: none, from PinnedAllocation in alt (off: 0, size: 2048) "
        "defined at fusion {2}, start_time:1, end_time:3, uses: none"
    )
    assert allocation is not None
    assert allocation.position == ("fusion", (2,))
    assert (allocation.fast, allocation.source_fast, allocation.offset) == (True, False, 4096)
    assert (allocation.start, allocation.end, allocation.copy_start, allocation.copy_done) == (5, 9, 4, 7)
    assert allocation.uses == (("fusion.1", 0, ()), ("call.2", 3, (1, 0)))
    assert (allocation.start_name, allocation.replaces) == ("copy-start.2", "slice.4")
    assert parse_allocation("something else") is None


def test_residencies_of_one_buffer_are_merged():
    parts = [[0, 1, 5, 4096, 0, 64], [0, 2, 5, 4096, 64, 128]]
    result = [0, 5, 7, 4096, 0, 128]  # an operation works in place on what two slices brought
    other = [1, 5, 6, 0, 0, 64]
    merged = merge_residencies(np.array([result, other, *parts]))
    assert merged.tolist() == [[0, 1, 7, 4096, 0, 64], [0, 2, 7, 4096, 64, 128], other]
    twice = merge_residencies(np.array([[0, 1, 3, 0, 0, 64], [0, 3, 9, 0, 0, 64], [0, 12, 13, 0, 0, 64]]))
    assert twice.tolist() == [[0, 1, 9, 0, 0, 64], [0, 12, 13, 0, 0, 64]]
