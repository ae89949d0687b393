"""Kernels for tpu7x, whose arrays the compiler colors: its choice is not taken for a need, the author's is."""

from pathlib import Path

import pytest
from compiler_cases import BEFORE, KERNELS_TPU7X, UNCOLORED, assembled, unpacked

from mallocmuzero.env.capture.hlo import read_module
from mallocmuzero.env.capture.kernel_colors import kernels_before
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.kernel_colors import KERNEL_COLORS, kernel_colors, own_colors
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify


@pytest.fixture
def compilation(tmp_path: Path) -> Path:
    return unpacked(KERNELS_TPU7X, tmp_path)


@pytest.fixture
def program(compilation: Path) -> Program:
    return assembled(compilation, "tpu7x")


def names(program: Program, accesses: list[int]) -> list[str]:
    return [program.buffer_names[program.access_buffer[access]] for access in accesses]


def test_xlas_mapping_reads_back(program: Program) -> None:
    assert program.production is not None
    assert verify(program, program.target, program.production) == []
    colored = own_colors(program)
    assert (program.production.access_fast[colored >= 0] == colored[colored >= 0]).all()


def test_colors_come_with_the_names_of_that_pass(program: Program) -> None:
    found = {
        kernel.name: list(zip(names(program, kernel.access), kernel.color, strict=True))
        for kernel in kernel_colors(program)
    }
    assert found == {
        "f": [("x.1", 0), ("ws_0_.1", 1), ("f.3", 1)],
        "f.1": [("fusion", 1), ("ws_1_.1", 1), ("f.4", 0)],
        "f.2": [("fusion.1", 0), ("ws_2_.1", 1), ("f.5", 1)],
    }


def test_only_what_an_author_wants_in_hbm_has_to_be_there(program: Program) -> None:
    allowed = dict(zip(program.buffer_names, program.fast_allowed.tolist(), strict=True))
    assert not allowed["f.4"]
    assert allowed["x.1"]
    assert allowed["fusion.1"]


def test_colors_survive_in_a_file(program: Program, tmp_path: Path) -> None:
    write_program(program, tmp_path / "program.json.gz")
    assert kernel_colors(read_program(tmp_path / "program.json.gz")) == kernel_colors(program)


def test_what_an_author_wants_in_fast_memory_is_refused(compilation: Path) -> None:
    uncolored = compilation / UNCOLORED
    text = uncolored.read_text(encoding="utf-8")
    asked = '"output_memory_space_colors":[{"color":"0"'
    assert text.count(asked) == 1
    uncolored.write_text(text.replace(asked, asked.replace('"0"', '"1"')), encoding="utf-8")
    with pytest.raises(UserError, match=r"kernel 'f.4' wants its result in memory 1, .* leave the choice"):
        assembled(compilation, "tpu7x")


def test_without_the_dump_all_colors_are_the_authors(compilation: Path) -> None:
    (compilation / UNCOLORED).unlink()
    with pytest.raises(UserError, match=r"kernel 'f.3' wants its operand 1 in memory 1"):
        assembled(compilation, "tpu7x")


def test_kernels_that_do_not_pair_off_are_left_out(compilation: Path) -> None:
    module, before = read_module(compilation / BEFORE), read_module(compilation / UNCOLORED)
    assert {name: kernel.name for name, kernel in kernels_before(module, before).items()} == {
        "f.3": "f",
        "f.4": "f.1",
        "f.5": "f.2",
    }
    lines = before.entry.lines
    lines.remove(next(line for line in lines if "%f.1 =" in line))
    assert kernels_before(module, before) == {}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"name": "f", "access": [0]}, "wrong entry"),
        ({"name": "f", "access": ["x"], "color": [0]}, "wrong entry"),
        ({"name": 5, "access": [0], "color": [0]}, "wrong entry"),
        ({"name": "f", "access": [0.5], "color": [0]}, "wrong entry"),
        ({"name": "f", "access": [0], "color": 1}, "wrong entry"),
        ({"name": "f", "access": [0], "color": [True]}, "wrong entry"),
        ({"name": "f", "access": [0], "color": [2]}, "wrong entry"),
        ({"name": "f", "access": [0], "color": [300]}, "wrong entry"),
        ([], "wrong entry"),
        ({"name": "f", "access": [0, 1], "color": [0]}, "names accesses"),
        ({"name": "f", "access": [999], "color": [0]}, "names accesses"),
    ],
)
def test_damaged_colors_are_refused(program: Program, entry: object, message: str) -> None:
    program.compiler[KERNEL_COLORS] = [entry]
    with pytest.raises(FormatError, match=rf"`compiler.{KERNEL_COLORS}`.*{message}.*capture it again"):
        kernel_colors(program)


@pytest.mark.parametrize("rows", [5, None, "f", {"name": "f"}])
def test_colors_that_are_no_list_are_refused(program: Program, rows: object) -> None:
    program.compiler[KERNEL_COLORS] = rows
    with pytest.raises(FormatError, match=rf"`compiler.{KERNEL_COLORS}` is no list; capture it again"):
        own_colors(program)
