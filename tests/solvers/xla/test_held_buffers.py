"""XLA's algorithm on programs whose collectives run beside other instructions."""

from pathlib import Path

import pytest
from compiler_cases import assembled
from sharded_cases import COMPILATIONS, unpack

from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.solvers.xla.decoder import Decoder


@pytest.mark.parametrize("name", COMPILATIONS)
def test_it_places_what_collectives_hold_as_the_compiler_does(tmp_path: Path, name: str) -> None:
    program = assembled(unpack(name, tmp_path))
    assert program.production is not None
    mapping = Decoder(program).decode()
    assert verify(program, program.target, mapping) == []
    since, last = program.holds.T
    assert mapping.access_fast[since].tolist() == mapping.access_fast[last].tolist()
    assert (mapping.access_fast[since] != program.production.access_fast[since]).sum() <= 1
    alike = program.access_bytes[mapping.access_fast == program.production.access_fast].sum()
    assert alike >= 0.97 * program.access_bytes.sum()
