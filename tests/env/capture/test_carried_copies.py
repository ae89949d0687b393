"""Copies of slices that run across the passes of a loop: what they write takes fast memory, and is no choice.

Recorded for v6e, with the versions of `packages.json`, until memory is assigned:

attention: one layer of attention, without a loop of its own: (8, 512, 512), eight heads, bf16, causal.
layers: the gradient of three such layers under `lax.scan` and `jax.checkpoint`.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, assembled, assert_read_back, recorded, requests, unpacked

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.coloring_hints import without_hints
from mallocmuzero.env.capture.compilation_files import SCHEDULED_MODULE, only_file
from mallocmuzero.env.capture.compiler import CODE
from mallocmuzero.env.capture.hlo import read_module
from mallocmuzero.env.capture.log import read_log
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.program import compiler_flags
from mallocmuzero.env.program.kernel_colors import COLORED_FAST, FAST, own_colors
from mallocmuzero.env.program.program import RESULT, Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder

DATA = SMALL.parent / "carried"
NAMES = ("attention", "layers")
# The instructions that start and end such copies.
HALF = re.compile(r"^dynamic[-_]slice\S*-(start|done)")


@pytest.fixture(scope="module", params=NAMES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(DATA / f"{request.param}-v6e.tar.xz", tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def program(folder: Path) -> Program:
    return assembled(folder, "v6e")


def test_production_is_read_back(program: Program, tmp_path: Path) -> None:
    assert_read_back(program)
    write_program(program, tmp_path / "p.json.gz")
    assert read_program(tmp_path / "p.json.gz").sha256 == program.sha256


def test_a_slice_takes_fast_memory_while_it_is_there(program: Program, folder: Path) -> None:
    log = read_log(folder / "log.txt")
    slices = [a for a in log.allocations if HALF.match(a.position[0]) and a.position[1] in ((1,), ())]
    assert slices
    assert not log.scoped
    for allocation in slices:
        inside = (program.schedule_index >= allocation.start) & (program.schedule_index <= allocation.end)
        assert np.all(program.reserved[inside] >= allocation.size)
    largest = {a.position: a.size for a in slices}
    assert program.reserved.max() <= sum(largest.values())
    assert not program.reserved[0]


def test_a_slice_is_no_buffer_and_costs_the_time_of_fast_memory(program: Program, folder: Path) -> None:
    assert not any(HALF.match(name) for name in program.buffer_names)
    log = read_log(folder / "log.txt")
    ends = [t for t, name in enumerate(program.instruction_names) if HALF.match(name) and "done" in name]
    assert ends
    for t in ends:
        assert program.access_start[t] == program.access_start[t + 1]
        assert program.bytes_total[t] == 0
    # Of what reads a slice, those bytes count as fewer in HBM.
    name = program.instruction_names[
        next(t for t in range(ends[0], len(program.opcodes)) if program.opcodes[t] == "fusion")
    ]
    spared = log.total_bytes[name] - program.bytes_total[program.instruction_names.index(name)]
    read = sum(moved for use, moved in log.operand_bytes.items() if use[0] == name and "slice" not in use[0])
    assert 0 < spared < read


def test_sources_and_what_is_written_in_place_are_in_hbm(program: Program) -> None:
    assert program.hbm_accesses is not None
    starts = [t for t, opcode in enumerate(program.opcodes) if opcode == "async-start"]
    for t in starts:
        accesses = np.arange(program.access_start[t], program.access_start[t + 1])
        fast = [program.buffer_names[program.access_buffer[a]] for a in accesses if program.access_allowed[a]]
        # The tile that an update writes back is fast as it comes.
        assert len(fast) <= ("update" in program.instruction_names[t]), program.instruction_names[t]
    source = next(
        program.access_buffer[program.access_start[t]]
        for t in starts
        if "dynamic-slice.1" in program.instruction_names[t]
    )
    (made,) = np.flatnonzero((program.access_buffer == source) & (program.access_kind == RESULT))
    assert program.hbm_accesses[made]


def test_the_game_follows_production(program: Program) -> None:
    assert program.production is not None
    line = follow(MallocGame(program, program.target, "msa", trivial_share=0.0), program.production)
    assert verify(program, program.target, line.mapping) == []
    assert line.gained == {}
    # Of the layers, a buffer of 64 MiB needs its very place, which the game does not leave.
    assert set(line.lost) <= {"no offset", "earlier"}


def test_our_copy_of_xlas_algorithm_serves_the_same_bytes(program: Program) -> None:
    assert program.production is not None
    alike = Decoder(program).decode().access_fast == program.production.access_fast
    assert np.average(alike, weights=program.access_bytes) > 0.98


def test_notes_of_colors_are_taken_out(folder: Path) -> None:
    before = read_module(only_file(folder, SCHEDULED_MODULE))
    uncolored = without_hints(before)
    assert 'xla_coloring_hint="true"' in str([c.lines for c in before.computations.values()])
    assert 'xla_coloring_hint="true"' not in str([c.lines for c in uncolored.module.computations.values()])
    assert uncolored.module.entry is uncolored.module.computations[before.entry.name]
    for computation in uncolored.module.computations.values():
        for instruction in computation.instructions.values():
            assert set(instruction.operands) <= computation.instructions.keys()
    assert any("call-start" in name and number == 0 for name, number, _ in uncolored.in_hbm)
    again = without_hints(uncolored.module)
    assert again.in_hbm == frozenset()


def test_what_the_compiler_has_in_fast_memory_is_told(program: Program, tmp_path: Path) -> None:
    colored = program.compiler[COLORED_FAST]
    assert colored
    assert np.all(program.access_kind[colored] == RESULT)
    assert program.production is not None
    assert program.production.access_fast[colored].all()
    assert np.flatnonzero(own_colors(program) == FAST).tolist() == colored
    program = replace(program, compiler={**program.compiler, COLORED_FAST: [program.num_accesses]})
    with pytest.raises(FormatError, match=r"`compiler.colored_fast` is no list of its accesses; capture it again"):
        own_colors(program)


def test_cycles_in_hbm_are_asked_for_without_slices(folder: Path, tmp_path: Path) -> None:
    python = recorded(tmp_path, compilation=folder)
    capture("models:f", "v6e", tmp_path / "p.json.gz", python=python, passes=3)
    to_the_end = [request["options"] for request in requests(tmp_path) if request["through"] == CODE]
    assert to_the_end[:3] == [{}, compiler_flags.IN_HBM_UNSLICED, compiler_flags.FEW_COPIES]


def test_another_start_is_refused(tmp_path: Path) -> None:
    folder = unpacked(DATA / "attention-v6e.tar.xz", tmp_path)
    path = only_file(folder, SCHEDULED_MODULE)
    text = path.read_text()
    (line,) = [line for line in text.splitlines() if "%dynamic-slice.1.cloned.1.call-start.1 = " in line]
    path.write_text(text.replace(line, line.replace(" async-start(", " async-update(")))
    with pytest.raises(UserError, match=r"'dynamic-slice.1.cloned.1.call-start.1' begins it, .* not understand"):
        Assembly(folder, GENERATIONS["v6e"], "p", "p")


def test_a_slice_outside_fast_memory_is_refused(tmp_path: Path) -> None:
    folder = unpacked(DATA / "attention-v6e.tar.xz", tmp_path)
    log = folder / "log.txt"
    there = r"(Post-Processing: PinnedAllocation) in alt \(.*\)( defined at dynamic-slice\.1\.cloned\.1\.call-done\.1)"
    changed, count = re.subn(there, r"\1 in def\2", log.read_text())
    assert count
    log.write_text(changed)
    with pytest.raises(UserError, match=r"call-done\.1.*is not always in fast memory"):
        Assembly(folder, GENERATIONS["v6e"], "p", "p")
