"""A stand-in for XLA's own mapping where that could not be read back: the mapping of XLA's algorithm."""

from dataclasses import replace

from ..env.program.program import Program
from ..env.verifier.verify import check
from .xla.decoder import Decoder


def why_missing(program: Program) -> str | None:
    """Returns the reason in words why a program has no production mapping; None if it has one."""
    if program.production is not None:
        return None
    found = program.compiler.get("inexpressible") or {}
    reasons = ", ".join(f"{reason} ({count})" for reason, count in found.items()) if isinstance(found, dict) else ""
    return f"XLA's own mapping could not be read back: {reasons or 'the program file does not say why'}"


def with_stand_in(program: Program) -> Program:
    """Returns a program that has the mapping of XLA's algorithm (the solver `xla`) where production should be.

    The stand-in is what our copy of the algorithm makes under production settings; the compiler itself may have made
    another mapping. So every comparison with it must name it. The program's hash stays the same.

    Args:
      program: a program without a production mapping; a program with one is returned unchanged.

    Raises:
      VerificationError: the algorithm made no legal mapping.
    """
    if program.production is not None:
        return program
    mapping = Decoder(program, program.target).decode()
    check(program, program.target, mapping)
    return replace(program, production=mapping)
