"""Programs with another size of fast memory: further problems to learn on, made of the same program."""

import dataclasses
import math

from ...env.errors import UserError
from ...env.program.program import Program
from ...env.verifier.verify import verify
from ...solvers.xla.decoder import Decoder

# Separates a program's name from the share of fast memory.
MARK = "@"


def resize_fast_memory(program: Program, share: float) -> Program:
    """Returns `program` on a target with `share` times the fast memory, called `NAME@SHARE`.

    Its production mapping is that of XLA's algorithm (`solvers/xla`), not of the compiler.

    Raises:
      UserError: the share is not positive and finite, or too small for the bytes that instructions reserve.
    """
    name = f"{program.name}{MARK}{share:g}"
    if not (share > 0.0 and math.isfinite(share)):
        raise UserError(f"workload {name!r}: the share of fast memory is {share}; it must be above 0")
    target = program.target
    fast_bytes = int(target.fast_bytes * share) // target.alignment * target.alignment
    reserved = int(program.reserved.max(initial=0))
    if fast_bytes <= reserved:
        raise UserError(
            f"workload {name!r}: leaves {fast_bytes} bytes of fast memory, but instructions reserve {reserved}; give a "
            "larger share"
        )
    made = dataclasses.replace(
        program,
        name=name,
        target=dataclasses.replace(target, fast_bytes=fast_bytes),
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
