"""Collectives that run beside other instructions: what they hold is read, and XLA's mapping with it."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import assembled
from sharded_cases import COMPILATIONS, unpack

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify


def names(program: Program, accesses: np.ndarray) -> list[str]:
    return [program.instruction_names[t] for t in program.access_instruction[accesses]]


@pytest.mark.parametrize("name", COMPILATIONS)
def test_production_is_read_back(tmp_path: Path, name: str):
    program = assembled(unpack(name, tmp_path))
    production = program.production
    assert production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, production) == []
    assert program.compiler["estimates_off"] == pytest.approx({"without_copies": 0.0, "with_copies": 0.0}, abs=1e-5)
    since, last = program.holds.T
    assert np.array_equal(production.access_fast[since], production.access_fast[last])
    assert production.access_fast[since].any()
    write_program(program, tmp_path / "p.json.gz")
    again = read_program(tmp_path / "p.json.gz")
    assert again.sha256 == program.sha256
    assert np.array_equal(again.holds, program.holds)


def test_a_pair_holds_what_it_reads_and_what_it_writes(tmp_path: Path):
    program = assembled(unpack("ring-v5e-2x2", tmp_path))
    since, last = program.holds.T
    starts = ["collective-permute-start", "collective-permute-start.1", "collective-permute-start.2"]
    assert names(program, since) == [name for name in starts for _ in range(2)]
    assert names(program, last) == [name.replace("start", "done") for name in starts for _ in range(2)]
    assert program.access_kind[since].tolist() == [OPERAND, RESULT] * 3
    assert np.all(program.access_buffer[since] == program.access_buffer[last])
    # What one has received is what the next one sends.
    received = program.access_buffer[since][1::2]
    assert received[:-1].tolist() == program.access_buffer[since][2::2].tolist()
    # The compiler charges nothing for either half, and semaphores are no buffers.
    halves = [t for t, opcode in enumerate(program.opcodes) if opcode.startswith("collective-permute")]
    assert len(halves) == 6
    assert not program.bytes_total[halves].any()
    assert not program.compute_s[halves].any()
    assert not any("{2}" in name or "{3}" in name for name in program.buffer_names)


def test_fusions_carry_a_collective_on(tmp_path: Path):
    program = assembled(unpack("fsdp-train-v5e-2x2", tmp_path))
    since, last = program.holds.T
    pairs = Counter(zip(names(program, since), names(program, last), strict=True))
    hidden = {pair: count for pair, count in pairs.items() if pair[0].startswith("async-collective-start")}
    assert hidden
    assert set(hidden.values()) == {2}
    assert all(end.startswith("async-collective-done") for _, end in hidden)
    for start, end in hidden:
        first, until = (program.instruction_names.index(name) for name in (start, end))
        assert until > first + 1
        held = program.access_buffer[since[np.isin(names(program, since), [start])]]
        between = slice(program.access_start[first + 1], program.access_start[until])
        # The fusions between them carry the arrays on, which costs nothing and is no access.
        assert not np.isin(program.access_buffer[between], held).any()
        # Start and end are charged for what they pass on.
        assert program.bytes_total[first] > 0
        assert program.bytes_total[until] > 0


def test_a_collective_runs_across_a_loop(tmp_path: Path):
    program = assembled(unpack("crossing-v5e-2x2", tmp_path))
    since, last = program.holds.T
    assert names(program, since) == ["async-collective-start"] * 2
    assert names(program, last) == ["async-collective-done"] * 2
    first, until = (program.instruction_names.index(f"async-collective-{half}") for half in ("start", "done"))
    inside = np.flatnonzero(program.loop == 0)
    assert program.loop[[first, until]].tolist() == [-1, -1]
    assert first < inside[0]
    assert inside[-1] < until
    # Nothing in the loop reads or writes what it holds, and XLA gathers it into fast memory meanwhile.
    held = program.access_buffer[since]
    within = slice(program.access_start[inside[0]], program.access_start[inside[-1] + 1])
    assert not np.isin(program.access_buffer[within], held).any()
    assert program.production is not None
    assert program.production.access_fast[since].all()


@pytest.mark.parametrize("name", COMPILATIONS)
def test_the_game_follows_production(tmp_path: Path, name: str):
    program = assembled(unpack(name, tmp_path))
    assert program.production is not None
    game = MallocGame(program, program.target, "msa", trivial_share=0.0)
    line = follow(game, program.production)
    assert verify(program, program.target, line.mapping) == []
    assert line.gained == {}
    lost = program.access_bytes[[access for rows in line.lost.values() for access in rows]].sum()
    assert lost <= 0.03 * program.access_bytes.sum()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ring-v5e-2x2", " collective-permute-done(", " negate(", "takes the operand 0 of a running collective"),
        ("ring-v5e-2x2", " collective-permute-start(", " send(", "is a `send`, which capture does not understand yet"),
        (
            "crossing-v5e-2x2",
            "(%fusion.21), index=2",
            "(%fusion.21), index=0",
            r"passes that begin or end it, at \{5\}",
        ),
    ],
)
def test_what_is_not_understood_is_refused(tmp_path: Path, name: str, old: str, new: str, message: str):
    folder = unpack(name, tmp_path)
    (path,) = folder.glob("*before_buffer_assignment.txt")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        assembled(folder)
