"""The typical size: as logged, else the one with which the algorithm makes the compiler's copies, else a guess."""

from dataclasses import replace

from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.module_facts import LOGGED, typical_bytes
from mallocmuzero.solvers.xla.options import production
from mallocmuzero.solvers.xla.typical_size import fitted_typical_bytes


def share_of_copies(program: Program, size: int) -> float:
    assert program.production is not None
    mapping = Decoder(program, program.target, replace(production(program.target), typical_bytes=size)).decode()
    made, found = (set(map(tuple, each.copies[:, :4].tolist())) for each in (program.production, mapping))
    return len(made & found) / len(made | found)


def test_a_logged_size_stands() -> None:
    program = load("bert-train-b8")
    assert fitted_typical_bytes(program, program.target) == LOGGED[program.sha256[:12]]


def test_the_size_that_explains_the_compilers_copies_is_found() -> None:
    program = load("llama-flash-remat-train-b4-s2048-v6e")
    guess, fitted = typical_bytes(program), fitted_typical_bytes(program, program.target)
    assert share_of_copies(program, fitted) > 0.75 > 0.6 > share_of_copies(program, guess)


def test_without_a_mapping_of_the_compiler_it_is_a_guess() -> None:
    program = replace(load("llama-flash-remat-train-b4-s2048-v6e"), production=None)
    assert fitted_typical_bytes(program, program.target) == typical_bytes(program)
