"""What runs under `jax.lax.scan` reads back whole: the mapping is legal, and the compiler's own figures come out."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import assembled
from scanned_cases import COMPILATIONS, SCANNED, load_scanned, unpack

from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import WRITE_BACK
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.verifier.verify import verify


def within_a_pass(program: Program) -> np.ndarray:
    """Returns `[C]` whether a copy of the production mapping is issued in a loop and complete when its body ends."""
    assert program.production is not None
    start, end = program.production.copies[:, 2], program.production.copies[:, 3]
    spans = zip(program.loop_first, program.loop_last, strict=True)
    return np.any([(first <= start) & (start < last) & (end == last + 1) for first, last in spans], axis=0)


@pytest.mark.parametrize("name", SCANNED)
def test_production_is_legal_and_whole(name: str):
    program = load_scanned(name)
    production, reported = program.production, program.compiler["reported"]
    assert production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, production) == []
    direction, low, high = production.copies[:, [1, 4, 5]].T
    assert (direction != WRITE_BACK).sum() == reported["prefetches"]
    assert (direction == WRITE_BACK).sum() == reported["evictions"]
    assert (high - low)[direction != WRITE_BACK].sum() == pytest.approx(reported["prefetch_bytes"], rel=1e-3)


@pytest.mark.parametrize("name", SCANNED)
def test_printed_estimates_come_out(name: str):
    program = load_scanned(name)
    assert program.production is not None
    off = estimates_off(program, program.production)
    assert off == pytest.approx(program.compiler["estimates_off"], abs=1e-12)
    assert off == pytest.approx({"without_copies": 0.0, "with_copies": 0.0}, abs=1e-4)


def test_a_mapping_that_the_events_do_not_fit_has_no_estimate():
    program = load_scanned("decode-v5e")
    assert program.production is not None
    copies = program.production.copies.copy()
    copies[0, 2] -= 1
    off = estimates_off(program, replace(program.production, copies=copies))
    assert off["with_copies"] is None
    assert off["without_copies"] == pytest.approx(0.0, abs=1e-4)


def test_some_copies_end_with_the_body_of_a_loop():
    """They run in every pass, and the simulator counts their waits as often."""
    program = load_scanned("vit-train-v5e")
    production = program.production
    assert production is not None
    ending = within_a_pass(program)
    assert ending.any()
    # Due at once, they are waited for, six times each.
    hurried = production.copies.copy()
    hurried[ending, 2] = hurried[ending, 3] - 2
    latency_s = simulate(program, program.target, replace(production, copies=hurried)).latency_s
    seconds = (hurried[ending, 5] - hurried[ending, 4]).sum() / program.target.hbm_bandwidth
    assert latency_s > simulate(program, program.target, production).latency_s + 5 * seconds


@pytest.mark.parametrize("name", COMPILATIONS)
def test_a_compilation_becomes_the_program(name: str, tmp_path: Path):
    program, kept = assembled(unpack(name, tmp_path)), load_scanned(name)
    assert program.sha256 == kept.sha256
    assert program.production is not None
    assert kept.production is not None
    assert np.array_equal(program.production.residencies, kept.production.residencies)
    assert np.array_equal(program.production.copies, kept.production.copies)
    assert np.array_equal(program.production.access_fast, kept.production.access_fast)
    assert program.compiler["estimates_off"] == pytest.approx(kept.compiler["estimates_off"], abs=1e-9)
