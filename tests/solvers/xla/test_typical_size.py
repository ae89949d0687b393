"""The typical size: as logged, else the one with which the algorithm makes the compiler's copies, else a guess."""

from dataclasses import replace

import pytest

from mallocmuzero.env.program.assignment_facts import without_facts
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.module_facts import typical_bytes
from mallocmuzero.solvers.xla.options import production
from mallocmuzero.solvers.xla.typical_size import fitted_typical_bytes


def share_of_copies(program: Program, size: int) -> float:
    assert program.production is not None
    mapping = Decoder(program, program.target, replace(production(program.target), typical_bytes=size)).decode()
    made, found = (set(map(tuple, each.copies[:, :4].tolist())) for each in (program.production, mapping))
    return len(made & found) / len(made | found)


# The bytes stand in the logs of the captures: the last two are of no access and of no buffer.
@pytest.mark.parametrize(("name", "size"), [("bert-train-b8", 3 << 20), ("tiny", 24 << 20), ("strassen-8192", 1 << 24)])
def test_a_logged_size_stands(name: str, size: int) -> None:
    program = load(name)
    assert typical_bytes(program) == fitted_typical_bytes(program, program.target) == size


def test_the_size_that_explains_the_compilers_copies_is_found() -> None:
    program = without_facts(load("llama-flash-remat-train-b4-s2048-v6e"))
    guess, fitted = typical_bytes(program), fitted_typical_bytes(program, program.target)
    assert share_of_copies(program, fitted) > 0.75 > 0.6 > share_of_copies(program, guess)


def test_without_a_mapping_of_the_compiler_it_is_a_guess() -> None:
    program = replace(without_facts(load("llama-flash-remat-train-b4-s2048-v6e")), production=None)
    assert fitted_typical_bytes(program, program.target) == typical_bytes(program)
