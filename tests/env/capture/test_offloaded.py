"""Activations that `jax.checkpoint` offloads to host memory: copies out and in run beside the other instructions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import assembled, assert_read_back, unpacked

from mallocmuzero.env.capture.same_problem import same_problem, tells_other_cores
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder

# Training steps for v5e. `scanned`: three layers under `lax.scan`, whose inputs are written in place into a stack in
# host memory (`async-start`). `unrolled`: five layers, whose inputs are copied out and in one by one (`copy-start`).
DATA = Path(__file__).parent / "data" / "offloaded"
NAMES = ("scanned", "unrolled")


@pytest.fixture(params=NAMES)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    return assembled(unpacked(DATA / f"{request.param}-v5e.tar.xz", tmp_path))


def test_production_is_read_back(program: Program, tmp_path: Path) -> None:
    assert_read_back(program)
    write_program(program, tmp_path / "p.json.gz")
    assert np.array_equal(read_program(tmp_path / "p.json.gz").holds, program.holds)


def test_the_game_follows_production(program: Program) -> None:
    assert program.production is not None
    line = follow(MallocGame(program, program.target, "msa", trivial_share=0.0), program.production)
    assert verify(program, program.target, line.mapping) == []
    assert line.gained == {}
    assert sum(len(accesses) for accesses in line.lost.values()) <= 1


def test_a_stack_in_host_memory_is_written_in_place_and_never_fast(tmp_path: Path) -> None:
    program = assembled(unpacked(DATA / "scanned-v5e.tar.xz", tmp_path))
    start, end = (program.instruction_names.index(f"dynamic-update-slice-{half}") for half in ("start", "done"))
    since, last = program.holds.T
    held = program.access_instruction[since] == start
    assert np.all(program.access_instruction[last[held]] == end)
    stack = program.buffer_names.index("custom-call.2")
    kinds = program.access_kind[since[held & (program.access_buffer[since] == stack)]]
    assert kinds.tolist() == [OPERAND, RESULT]
    assert not program.fast_allowed[stack]


def test_a_copy_to_host_memory_holds_what_it_reads(tmp_path: Path) -> None:
    program = assembled(unpacked(DATA / "unrolled-v5e.tar.xz", tmp_path))
    starts = [t for t, opcode in enumerate(program.opcodes) if opcode == "copy-start"]
    assert len(starts) == 10  # five out, five in
    since, last = program.holds.T
    assert set(program.access_instruction[since].tolist()) == set(starts)
    assert {program.opcodes[t] for t in program.access_instruction[last].tolist()} == {"copy-done"}
    assert not program.bytes_total[starts].any()


def test_what_is_copied_to_and_from_the_host_is_in_hbm(program: Program) -> None:
    assert program.hbm_accesses is not None
    pairs = {"copy-start", "copy-done", "async-start", "async-done"}
    of_copies = np.isin(np.array(program.opcodes)[program.access_instruction], list(pairs))
    movable = program.fast_allowed[program.access_buffer]
    assert np.array_equal(program.hbm_accesses, of_copies & movable)
    assert program.hbm_accesses.any()
    mapping = Decoder(program).decode()
    assert verify(program, program.target, mapping) == []
    assert program.production is not None
    # All but one use in `scanned`, where our copy of XLA's algorithm does not fetch what it copied out.
    assert (mapping.access_fast != program.production.access_fast).sum() <= 1
    assert tells_other_cores(program)


def test_an_earlier_capture_is_the_same_problem(program: Program) -> None:
    earlier = replace(program, hbm_accesses=np.zeros(program.num_accesses, bool))
    assert same_problem(earlier, program)
    assert earlier.sha256 != program.sha256
    if "copy-start" in program.opcodes:
        assert not tells_other_cores(earlier)
