"""What an instruction computes, as text that is equal for identical computations: no names, no memory spaces."""

import hashlib
import re

from .hlo import Computation, Instruction, Module, Shape

_SPACE = re.compile(r"S\(\d+\)")
_METADATA = re.compile(r', (?:metadata|frontend_attributes)=\{[^{}"]*(?:"(?:[^"\\]|\\.)*"[^{}"]*)*\}')
# The last attribute: what the code generator chose, cycles included.
_BACKEND = re.compile(r", backend_config=.*$")
_NAME = re.compile(r"%[\w.\-]+")
_ORDER = re.compile(r", control-predecessors=\{[^}]*\}")


class Canonical:
    """Canonical texts of the instructions of one module."""

    def __init__(self, module: Module) -> None:
        self._computations = module.computations
        self._known: dict[str, str] = {}

    def instruction(self, instruction: Instruction, shapes: list[Shape]) -> str:
        """Returns a hash of what the instruction computes.

        Args:
          instruction: of the module.
          shapes: of its operands.
        """
        attributes = self._attributes(", " + instruction.attributes if instruction.attributes else "")
        operands = ",".join(_shape(shape) for shape in shapes)
        return _digest(f"{_shape(instruction.shape)} {instruction.opcode}({operands}{instruction.literal}){attributes}")

    def _attributes(self, text: str) -> str:
        text = _ORDER.sub("", _BACKEND.sub("", _METADATA.sub("", text)))
        return _NAME.sub(lambda match: self._called(match.group()[1:]), text)

    def _called(self, name: str) -> str:
        computation = self._computations.get(name)
        return "%" if computation is None else self._computation(computation)

    def _computation(self, computation: Computation) -> str:
        known = self._known.get(computation.name)
        if known is None:
            numbers: dict[str, str] = {}

            def renamed(match: re.Match[str]) -> str:
                name = match.group()[1:]
                if name in self._computations:
                    return self._called(name)
                return numbers.setdefault(name, f"%{len(numbers)}")

            lines = [_NAME.sub(renamed, _BACKEND.sub("", _METADATA.sub("", line))) for line in computation.lines]
            known = self._known[computation.name] = _digest(_without_spaces("\n".join(lines)))
        return known


def _shape(shape: Shape) -> str:
    if shape.elements is None:
        return _without_spaces(shape.text)
    return "(" + ",".join(_shape(element) for element in shape.elements) + ")"


def _without_spaces(text: str) -> str:
    """`{1,0:S(1)}` and `{1,0}` differ in nothing but the memory space."""
    return _SPACE.sub("", text).replace(":}", "}").replace("]{}", "]")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
