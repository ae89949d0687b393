"""What another core of the chip touches is in HBM.

Recorded for v6e, with the versions of `packages.json`:

def f(table, index, w):
    return (jnp.take(table, index, axis=0).sum(1) @ w).sum()

jax.grad(f, 2), with a table of 100,000 x 64, indices of 4,096 x 16, and weights of 64 x 64
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.same_problem import same_problem, tells_other_cores
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.moves import COPY, DROP, NO_COPY
from mallocmuzero.env.program.program import OPERAND, Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    folder = unpacked(SMALL.parent / "other-cores" / "bag-v6e.tar.xz", tmp_path_factory.mktemp("bag"))
    return Assembly(folder, GENERATIONS["v6e"], "bag", "bag").program()


def touched(program: Program) -> dict[str, set[str]]:
    """Returns the buffers that each instruction always has in HBM."""
    found: dict[str, set[str]] = {}
    assert program.hbm_accesses is not None
    for access in np.flatnonzero(program.hbm_accesses).tolist():
        instruction = program.instruction_names[program.access_instruction[access]]
        found.setdefault(instruction, set()).add(program.buffer_names[program.access_buffer[access]])
    return found


def test_operands_and_results_of_a_gather_elsewhere_are_in_hbm(program: Program) -> None:
    update, done = "gather_offload_async_start.update", "gather_offload_async_done"
    arrays = {"copy.4", "broadcast_clamp_fusion", f"{update}{{1}}"}
    assert touched(program) == {update: arrays, done: arrays}
    assert tells_other_cores(program)
    assert program.production is not None


def test_the_file_says_so(program: Program, tmp_path: Path) -> None:
    write_program(program, tmp_path / "bag.json.gz")
    again = read_program(tmp_path / "bag.json.gz")
    assert again.sha256 == program.sha256
    assert np.array_equal(again.hbm_accesses, program.hbm_accesses)  # type: ignore[arg-type]
    document = json.loads(gzip.decompress((tmp_path / "bag.json.gz").read_bytes()))
    assert document["version"] == 6
    kinds = program.access_kind[document["hbm_operands"]["access"]]
    assert (kinds == OPERAND).all()


def test_no_game_and_no_decode_has_them_in_fast_memory(program: Program) -> None:
    assert program.hbm_accesses is not None
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    while not game.done:
        game.step(next(move for move in (NO_COPY, COPY, DROP) if game.legal[move]))
    for mapping in (game.mapping(), Decoder(program).decode()):
        assert verify(program, program.target, mapping) == []
        assert not mapping.access_fast[program.hbm_accesses].any()


def test_an_earlier_capture_is_the_same_problem(program: Program) -> None:
    earlier = replace(program, hbm_accesses=np.zeros(program.num_accesses, bool))
    assert not tells_other_cores(earlier)
    assert same_problem(earlier, program)
    other = np.zeros(program.num_accesses, bool)
    other[np.flatnonzero(program.hbm_accesses == 0)[:1]] = True
    assert not same_problem(replace(program, hbm_accesses=other), program)
