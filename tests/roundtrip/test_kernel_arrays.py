"""The arrays of kernels as options: which may be chosen, what fits, how the option names them, and that the real
compiler takes it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import KERNELS_TPU7X, assembled, real_python, unpacked

from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.compiler_flags import COLORS, KEEPS
from mallocmuzero.env.program.kernel_colors import FAST, HBM
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import Target
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.comparison import realised
from mallocmuzero.roundtrip.encoding import Codec, Encoding
from mallocmuzero.roundtrip.kernel_arrays import KernelArrays
from mallocmuzero.roundtrip.moves import Moves
from mallocmuzero.roundtrip.real_compiler import real_compiler
from mallocmuzero.roundtrip.source import find_source
from mallocmuzero.roundtrip.wanted import Wanted


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return assembled(unpacked(KERNELS_TPU7X, tmp_path_factory.mktemp("kernels")), "tpu7x")


@pytest.fixture(scope="module")
def codec(program: Program) -> Codec:
    return Codec(make_judge(program), 0)


def access_of(program: Program, instruction: str, buffer: str) -> int:
    t, b = program.instruction_names.index(instruction), program.buffer_names.index(buffer)
    (access,) = np.flatnonzero((program.access_instruction == t) & (program.access_buffer == b))
    return int(access)


def flip(codec: Codec, encoding: Encoding, accesses: list[int], fast: bool) -> Encoding:
    return codec.colored(encoding, np.array(accesses), np.full(len(accesses), fast))


def test_an_option_gives_the_memories_of_all_arrays_of_a_kernel_that_differs(program: Program, codec: Codec) -> None:
    encoding = flip(codec, codec.default(), [access_of(program, "f.4", "fusion")], False)
    assert encoding.kind == "colors"
    assert codec.options(encoding) == {
        COLORS: "forced_coloring_policy { instruction_forced_coloring_specs "
        '{ module_re: ".*" instruction_re: "f[.]1" colors: 0 colors: 1 colors: 0 } }'
    }
    assert not codec.decode(encoding).access_fast[access_of(program, "f.4", "fusion")]
    back = flip(codec, encoding, [access_of(program, "f.4", "fusion")], True)
    assert back.colors is None
    assert codec.options(back) == {}


def test_what_an_author_wants_in_hbm_is_not_chosen(program: Program, codec: Codec) -> None:
    result = access_of(program, "f.4", "f.4")
    assert result not in codec.arrays.access
    assert flip(codec, codec.default(), [result], True).colors is None


def test_what_the_program_returns_is_not_chosen(program: Program) -> None:
    output = program.is_output.copy()
    output[program.buffer_names.index("f.5")] = True
    returned = replace(program, is_output=output)
    arrays = KernelArrays(returned, program.target, np.ones(program.num_buffers, bool))
    assert access_of(program, "f.5", "f.5") not in arrays.access
    assert access_of(program, "f.5", "fusion.1") in arrays.access


def test_a_kernel_gets_no_more_than_fits(program: Program, codec: Codec) -> None:
    # 32 MiB are reserved by the kernel, 64 MiB are there: two arrays of 16 MiB leave no room for weights of 2 MiB.
    operand, weight, result = (access_of(program, "f.3", name) for name in ("x.1", "ws_0_.1", "f.3"))
    assert codec.arrays.own[[operand, weight, result]].tolist() == [HBM, FAST, FAST]
    assert program.reserved[program.access_instruction[operand]] == 32 * 2**20
    assert flip(codec, codec.default(), [operand], True).colors is None
    encoding = flip(codec, flip(codec, codec.default(), [result], False), [operand], True)
    assert encoding.colors is not None
    assert encoding.colors[[operand, weight, result]].tolist() == [FAST, FAST, HBM]


def test_accesses_of_a_kernel_to_one_buffer_have_one_color(program: Program) -> None:
    first, second = access_of(program, "f.3", "x.1"), access_of(program, "f.3", "ws_0_.1")
    buffer = program.access_buffer.copy()
    buffer[second] = buffer[first]
    twice = replace(program, access_buffer=buffer)
    arrays = KernelArrays(twice, program.target, np.ones(program.num_buffers, bool))
    colors = arrays.with_color(arrays.own, np.array([first]), np.array([False]))
    assert colors[[first, second]].tolist() == [HBM, HBM]


def test_what_stays_in_hbm_is_colored_so(program: Program, codec: Codec) -> None:
    default = codec.default()
    kept = np.zeros(program.num_buffers, bool)
    kept[program.buffer_names.index("ws_0_.1")] = True
    options = codec.options(replace(default, kept_buffers=kept))
    assert set(options) == {KEEPS, COLORS}
    assert 'instruction_re: "f" colors: 0 colors: 0 colors: 1' in options[COLORS]
    reads = np.zeros(program.num_accesses, bool)
    reads[access_of(program, "f.4", "fusion")] = True
    encoding = replace(default, kept_reads=reads & codec.may_keep)
    assert encoding.kept_reads.any()
    assert 'instruction_re: "f[.]1" colors: 0 colors: 1 colors: 0' in codec.options(encoding)[COLORS]


def test_first_encodings_have_the_mappings_memories_and_the_compilers(program: Program, codec: Codec) -> None:
    fast = program.production.access_fast.copy()
    fast[access_of(program, "f.4", "fusion")] = False
    wanted = Wanted(codec, replace(program.production, access_fast=fast))
    kinds = {encoding.kind for encoding in wanted.encodings(wanted.likely_flags())}
    parts = [set(kind.split("+")) for kind in kinds]
    assert any("colors" in some for some in parts)
    assert any("colors" not in some for some in parts)
    assert any({"order", "starts", "keeps", "colors"} <= some for some in parts)


def test_moves_choose_memories(program: Program, codec: Codec) -> None:
    wanted = Wanted(codec, program.production)
    moves = Moves(codec, wanted, np.random.default_rng(0))
    default = codec.default()
    decoded = codec.decode(default)
    kinds = {moves.moved(default, decoded).kind for _ in range(60)}
    assert "colors" in kinds


def test_other_programs_have_no_arrays() -> None:
    program = load("tiny")
    arrays = KernelArrays(program, Target(**vars(program.target)), np.ones(program.num_buffers, bool))
    assert not len(arrays.access)
    assert arrays.option(arrays.own) == {}


def test_an_encoding_with_colors_survives_as_arrays(program: Program, codec: Codec) -> None:
    encoding = flip(codec, codec.default(), [access_of(program, "f.4", "fusion")], False)
    again = Encoding.from_arrays(encoding.arrays())
    assert again.kind == "colors"
    assert np.array_equal(again.colors, encoding.colors)
    assert Encoding.from_arrays(codec.default().arrays()).colors is None


def test_the_real_compiler_has_arrays_where_it_is_told(tmp_path: Path) -> None:
    """The second of three products wants its result in HBM; the first one's operands go to HBM, and back again."""
    python, path = real_python(), tmp_path / "products.json.gz"
    (tmp_path / "products.py").write_text(
        """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

def product(a, b, out):
    out[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(jnp.bfloat16)

def step():
    def f(x, weights):
        for number, w in enumerate(weights):
            x = x + jax.nn.silu(pl.pallas_call(
                product, grid=(x.shape[0] // 512,),
                in_specs=[pl.BlockSpec((512, 1024), lambda i: (i, 0)), pl.BlockSpec((1024, 1024), lambda i: (0, 0))],
                out_specs=pl.BlockSpec((512, 1024), lambda i: (i, 0)),
                out_shape=(pltpu.HBM if number == 1 else jax.ShapeDtypeStruct)(x.shape, jnp.bfloat16),
            )(x, w))
        return x
    array = lambda *shape: jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    return f, (array(8192, 1024), [array(1024, 1024)] * 3)
""",
        encoding="utf-8",
    )
    program = capture("products:step", "tpu7x", path, python=python, working_folder=tmp_path, quick=True)
    assert program.production is not None
    codec = Codec(make_judge(program), 0)
    own = codec.default()
    weights = codec.arrays.access[program.size[program.access_buffer[codec.arrays.access]] == 2 * 2**20]
    others = np.setdiff1d(codec.arrays.access, weights)
    assert len(weights) == 3
    with real_compiler(find_source(program, path), python, progress=lambda line: None) as compiler:
        for encoding in (own, flip(codec, own, weights.tolist(), False), flip(codec, own, others.tolist(), False)):
            found = compiler.compile(program, codec.options(encoding), quick=True).mapping
            assert realised(program, codec.decode(encoding), found)["bytes"] > 0.999
            if encoding.colors is not None:
                assert (found.access_fast[codec.arrays.access] == encoding.colors[codec.arrays.access]).all()
