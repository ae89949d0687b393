"""Removes the compiler's color notes from a module (pipeline step 3).

Where the compiler cuts instructions into the passes of a loop, it marks with a custom call which memory an array must
be in. Such a call returns its operand, and is gone before memory is assigned.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..program.kernel_colors import FAST, HBM
from .hlo import Computation, Instruction, Module, Position, Use
from .kernel_colors import KERNEL, colors_of

_HINT = 'xla_coloring_hint="true"'
_NAME = re.compile(r"(?<=%)[\w.\-]+")


@dataclass(frozen=True)
class Uncolored:
    """A module without color notes.

    Attributes:
      module: the module; every note is replaced by its operand.
      in_hbm: the uses that notes require to be in HBM.
      fast: the arrays that notes require to be in fast memory, where they are defined.
    """

    module: Module
    in_hbm: frozenset[Use]
    fast: frozenset[Position]


def without_hints(module: Module) -> Uncolored:
    """Removes the notes from a scheduled module."""
    computations, in_hbm, fast = dict(module.computations), set[Use](), set[Position]()
    for computation in module.computations.values():
        if any(_HINT in line for line in computation.lines):
            hints = {i.name: i for i in computation.instructions.values() if _is_hint(i)}
            computations[computation.name] = _without(computation, hints, module)
            in_hbm |= set(_in_hbm(computation, hints))
            fast |= set(_fast(hints))
    uncolored = replace(module, computations=computations, entry=computations[module.entry.name])
    return Uncolored(uncolored, frozenset(in_hbm), frozenset(fast))


def _is_hint(instruction: Instruction) -> bool:
    return instruction.attribute("custom_call_target") == KERNEL and _HINT in instruction.attributes


def _without(computation: Computation, hints: dict[str, Instruction], module: Module) -> Computation:
    lines = zip(computation.lines, computation.instructions, strict=True)
    kept = [_NAME.sub(lambda name: _meant(name[0], hints), line) for line, name in lines if name not in hints]
    return Computation(computation.name, kept, module.path)


def _meant(name: str, hints: dict[str, Instruction]) -> str:
    while name in hints:
        name = hints[name].operands[0]
    return name


def _fast(hints: dict[str, Instruction]) -> Iterator[Position]:
    for hint in hints.values():
        yield from ((_meant(hint.name, hints), path) for _, path, color in colors_of(hint) if color == FAST)


def _in_hbm(computation: Computation, hints: dict[str, Instruction]) -> Iterator[Use]:
    for user in computation.instructions.values():
        for number, name in enumerate(user.operands if user.name not in hints else ()):
            while name in hints:
                yield from ((user.name, number, path) for _, path, color in colors_of(hints[name]) if color == HBM)
                name = hints[name].operands[0]
