"""What v5p splits over two cores takes half of its bytes in fast memory.

Recorded for v5p, with the versions of `packages.json`:

def f(x, w, table):
    h = x @ w
    rows = jax.lax.optimization_barrier(table.astype(jnp.bfloat16))
    return jnp.tanh(h @ w) + rows @ w

with `x` of 2,048 x 512 and `w` of 512 x 512 in bfloat16, and a table of 2,048 x 512 in float32
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.same_problem import same_problem
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind
from mallocmuzero.solvers.xla.decoder import Decoder

TABLE = "table.1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(SMALL.parent / "split" / "tables-v5p.tar.xz", tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def program(folder: Path) -> Program:
    return Assembly(folder, GENERATIONS["v5p"], "tables", "tables").program()


def test_one_buffer_takes_half_of_its_bytes(program: Program) -> None:
    assert program.split is not None
    (buffer,) = np.flatnonzero(program.split).tolist()
    assert program.buffer_names[buffer] == TABLE
    assert (program.size[buffer], program.fast_size[buffer]) == (2048 * 512 * 4, 2048 * 512 * 2)
    others = np.arange(program.num_buffers) != buffer
    assert np.array_equal(program.fast_size[others], program.size[others])


def test_the_compilers_mapping_is_read_and_holds_only_so(program: Program) -> None:
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    whole = replace(program, split=None)
    mapping = replace(program.production, program_sha256=whole.sha256)
    assert {violation.kind for violation in verify(whole, whole.target, mapping)} == {Kind.OVERLAP}


def test_the_copy_of_the_compilers_algorithm_does_the_same(program: Program) -> None:
    mapping = Decoder(program).decode()
    assert verify(program, program.target, mapping) == []
    assert program.production is not None
    assert np.array_equal(mapping.access_fast, program.production.access_fast)
    rows = [sorted(of.residencies[:, :3].tolist()) for of in (mapping, program.production)]
    assert rows[0] == rows[1]


def test_the_file_says_so(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "tables.json.gz"
    write_program(program, path)
    again = read_program(path)
    assert again.sha256 == program.sha256
    assert np.array_equal(again.split, program.split)  # type: ignore[arg-type]


def test_an_earlier_capture_is_the_same_program_and_keeps_what_it_says(program: Program, folder: Path) -> None:
    earlier = replace(program, split=None)
    assert same_problem(earlier, program)
    assert earlier.sha256 != program.sha256
    again = Assembly(folder, GENERATIONS["v5p"], "tables", "tables", like=earlier)
    assert again.program().split is None
    assert again.program().compiler["inexpressible"] == {
        "access to an array that is split over the cores of the chip": 1,
        "violation: overlap": 1,
    }
    like = Assembly(folder, GENERATIONS["v5p"], "tables", "tables", like=program).program()
    assert like.sha256 == program.sha256


def test_room_for_a_slice_is_not_room_for_a_part(folder: Path, program: Program, tmp_path: Path) -> None:
    """MSA also seeks room for what an asynchronous slice of a value would bring; the use is one of the slice."""
    text = (folder / "log.txt").read_text(encoding="utf-8")
    direct, of_slice = "use = convert_element_type.1, operand 0.", "use = convolution_add_fusion, operand 0."
    assert direct in text
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "log.txt").write_text(text.replace(direct, of_slice), encoding="utf-8")
    assert Assembly(tmp_path, GENERATIONS["v5p"], "tables", "tables").program().split is None
