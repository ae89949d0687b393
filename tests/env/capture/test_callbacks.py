"""Callbacks to the host (`jax.debug.print`): sends and receives that run beside the other instructions."""

from pathlib import Path

import pytest
from compiler_cases import BEFORE, assembled, assert_read_back, unpacked

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.program import OPERAND, Program
from mallocmuzero.env.program.program_file import read_program, write_program

# A training step for v5e of six layers under `lax.scan`. Each prints two scalars, and the loss is printed at the end.
PRINTING = Path(__file__).parent / "data" / "callbacks" / "print-v5e.tar.xz"


@pytest.fixture
def compilation(tmp_path: Path) -> Path:
    return unpacked(PRINTING, tmp_path)


@pytest.fixture
def program(compilation: Path) -> Program:
    return assembled(compilation)


def test_production_is_read_back(program: Program, tmp_path: Path) -> None:
    assert_read_back(program)
    write_program(program, tmp_path / "p.json.gz")
    assert read_program(tmp_path / "p.json.gz").sha256 == program.sha256


def test_what_is_sent_is_held_until_it_is_gone(program: Program) -> None:
    last = program.holds[:, 1]
    sent = [
        (program.opcodes[first], program.opcodes[end])
        for first, end in program.access_instruction[program.holds].tolist()
    ]
    assert sent.count(("send", "send-done")) == program.opcodes.count("send") == 3
    assert sent.count(("recv", "recv-done")) == program.opcodes.count("recv") > 0
    assert set(program.access_kind[last].tolist()) == {OPERAND}
    # Tokens order the callbacks, and are no buffers.
    assert all("after-all" not in name for name in program.buffer_names)


def test_a_send_to_another_device_is_refused(compilation: Path) -> None:
    text = (compilation / BEFORE).read_text(encoding="utf-8")
    (compilation / BEFORE).write_text(text.replace("is_host_transfer=true", "is_host_transfer=false"), encoding="utf-8")
    with pytest.raises(UserError, match=r"is a `send`, which capture does not understand yet; let the compiler shard"):
        assembled(compilation)
