"""Live bytes and pressure, on a program that can be counted by hand."""

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
