"""Programs with another size of fast memory: further problems to learn on, made of the same program."""

import dataclasses
import math

from ...env.errors import UserError
from ...env.program.program import Program
from ...env.verifier.verify import verify
from ...solvers.xla.decoder import Decoder

# Separates a program's name from the share of fast memory.
MARK = "@"


def leaves_memory(program: Program, share: float) -> bool:
    """Returns whether `share` times the fast memory is more than instructions reserve."""
    return _fast_bytes(program, share) > int(program.reserved.max(initial=0))


def _fast_bytes(program: Program, share: float) -> int:
    return int(program.target.fast_bytes * share) // program.target.alignment * program.target.alignment


def resize_fast_memory(program: Program, share: float) -> Program:
    """Returns `program` on a target with `share` times the fast memory, called `NAME@SHARE`.

    Its production mapping is that of XLA's algorithm (`solvers/xla`), not of the compiler.

    Raises:
      UserError: the share is not positive and finite, or too small for the bytes that instructions reserve.
    """
    name = f"{program.name}{MARK}{share:g}"
    if not (share > 0.0 and math.isfinite(share)):
        raise UserError(f"workload {name!r}: the share of fast memory is {share}; it must be above 0")
    fast_bytes = _fast_bytes(program, share)
    if not leaves_memory(program, share):
        raise UserError(
            f"workload {name!r}: leaves {fast_bytes} bytes of fast memory, but instructions reserve "
            f"{int(program.reserved.max(initial=0))}; give a larger share"
        )
    made = dataclasses.replace(
        program,
        name=name,
        target=dataclasses.replace(program.target, fast_bytes=fast_bytes),
        production=None,
        compiler={},
        variants=(),
        provenance={**program.provenance, "resized": {"from": program.sha256, "share": share}},
    )
    mapping = Decoder(made).decode()
    violations = verify(made, made.target, mapping)
    if violations:
        raise RuntimeError(f"XLA's algorithm made an illegal mapping of {name!r}: {violations[0].message}")
    return dataclasses.replace(made, production=mapping)
