"""Proof that the committed programs are extracted right: the compiler's own figures come out of them."""

import numpy as np
import pytest
from committed import MOST
from printed_estimate import with_copies, without_copies

from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK
from mallocmuzero.env.program.program import OPERAND
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load, names


@pytest.fixture(scope="module", params=names())
def program(request):
    """Each program in turn, read once for all tests of it, which leave it as it is."""
    return load(request.param)


def test_printed_estimates_come_out(program):
    assert program.production is not None
    printed = program.compiler["estimate_without_copies_s"], program.compiler["estimate_with_copies_s"]
    emulated = without_copies(program, program.production), with_copies(program, program.production)
    # What remains is the single precision in which the compiler sums: docs/physics-of-extraction.md.
    assert emulated == pytest.approx(printed, rel=2e-4)


def test_nothing_of_the_production_mapping_is_lost(program):
    reported, read_back = program.compiler["reported"], program.compiler["read_back"]
    assert program.compiler["inexpressible"] == {}
    assert program.production is not None
    direction, low, high = program.production.copies[:, [1, 4, 5]].T
    to_fast = direction != WRITE_BACK
    assert to_fast.sum() == reported["prefetches"]
    assert (direction == WRITE_BACK).sum() == reported["evictions"]
    # On v5p the compiler counts a few small vectors without their padding.
    assert (high - low)[to_fast].sum() == pytest.approx(reported["prefetch_bytes"], rel=1e-4)
    assert (high - low)[~to_fast].sum() == reported["eviction_bytes"]
    assert read_back.get("sliced_prefetches", 0) == reported["sliced_prefetches"]
    whole = (low == 0) & (high == program.size[program.production.copies[:, 0]])
    # A copy in place of a slice, which the compiler would have made before the instruction that reads it, is one too.
    in_place_of = [program.opcodes[t] for t in program.production.copies[:, 7] if t >= 0]
    assert (~whole).sum() + sum(opcode == "slice" for opcode in in_place_of) == reported["slices"]
    assert set(direction.tolist()) <= {PREFETCH, WRITE_BACK, CROSS_PROGRAM}


def test_production_mapping_is_legal(program):
    assert program.production is not None
    assert verify(program, program.target, program.production) == []


@pytest.mark.parametrize("name", MOST)
def test_the_estimate_depends_on_every_part(name):
    """A figure that came out whatever the mapping would prove nothing."""
    program = load(name)
    changed = program.access_bytes * np.where(program.access_kind == OPERAND, 0.9, 1.0)
    program.access_bytes[:] = changed
    assert program.production is not None
    printed = program.compiler["estimate_without_copies_s"]
    # Of a compute-bound program (MLP-Mixer) little moves; what is right agrees to 5e-5.
    assert without_copies(program, program.production) != pytest.approx(printed, rel=1e-4)
