"""Live bytes and pressure, on a program that can be counted by hand."""

from dataclasses import replace

import numpy as np
import pytest

from mallocmuzero.env.program.live import live_bytes, live_pressure
from mallocmuzero.env.workloads import load


def test_live_bytes_are_those_between_first_and_last_access() -> None:
    program = load("tiny")
    expected = np.zeros(program.num_instructions)
    for buffer in range(program.num_buffers):
        times = program.access_instruction[program.access_buffer == buffer]
        expected[times.min() : times.max() + 1] += program.size[buffer]
    assert live_bytes(program) == pytest.approx(expected)
    assert live_pressure(program) == pytest.approx(expected.max() / program.target.fast_bytes)


def test_chosen_buffers_add_up() -> None:
    program = load("tiny")
    inputs = program.definition < 0
    assert live_bytes(program, inputs) + live_bytes(program, ~inputs) == pytest.approx(live_bytes(program))


def test_a_split_buffer_takes_its_part() -> None:
    program = load("tiny")
    half = replace(program, split=-(-program.size // 2))
    assert live_bytes(half).max() == pytest.approx(live_bytes(program).max() / 2, rel=1e-3)
