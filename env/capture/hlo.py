"""Parses the text of a scheduled HLO module (pipeline step 2): computations, instructions in order, shapes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ..errors import FormatError

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .*)?\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"([a-z]+[a-z0-9]*)\[([^\]]*)\](?:\{([^}]*)\})?")
_OPCODE = re.compile(r" ([a-z][a-z0-9\-]*)\(")
_OPERAND = re.compile(r"%?([\w.\-]+)$")
_COMMENT = re.compile(r"/\*.*?\*/")
_MEMORY_SPACE = re.compile(r"S\((\d+)\)")
# An output that takes over the memory of an input: `{OUTPUT}: (NUMBER, {WHERE IN IT}`, both by shape index.
_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}")

# Where an array lies in a tuple: `()` for an array by itself, `(1, 0)` for the first element of the second element.
ShapeIndex = tuple[int, ...]
# The array that an instruction defines at a shape index (XLA: `HloPosition`).
Position = tuple[str, ShapeIndex]
# The array at a shape index of an instruction's operand, by the operand's number (XLA: `HloUse`).
Use = tuple[str, int, ShapeIndex]


@dataclass(frozen=True)
class Shape:
    """An array (`elements is None`) or a tuple of shapes.

    Attributes:
      text: an array's text, e.g. `bf16[512,1024]{1,0:T(8,128)(2,1)S(1)}`; empty for a tuple.
      elements: the shapes of a tuple.
    """

    text: str
    elements: "tuple[Shape, ...] | None" = None

    def leaves(self, path: ShapeIndex = ()) -> "Iterator[tuple[ShapeIndex, Shape]]":
        """Yields every array with its shape index; tokens, which only order instructions, are not arrays."""
        if self.elements is None:
            if not self.text.startswith("token"):
                yield path, self
            return
        for index, element in enumerate(self.elements):
            yield from element.leaves((*path, index))

    @property
    def layout(self) -> tuple[str, str, str]:
        """An array's element type, order of dimensions and tiles, e.g. `("bf16", "1,0", "T(8,128)(2,1)")`."""
        match = _ARRAY.match(self.text)
        element, _, braces = match.groups() if match else ("", "", "")
        order, _, tiles = _MEMORY_SPACE.sub("", braces or "").partition(":")
        return element, order, tiles

    @property
    def memory_space(self) -> int:
        """The number of the memory that an array lies in; 0 is HBM."""
        match = _MEMORY_SPACE.search(self.text)
        return int(match.group(1)) if match else 0

    @property
    def is_split(self) -> bool:
        """Whether each core of a chip holds a part of an array in its own fast memory."""
        return "SC(" in self.text


@dataclass(frozen=True)
class Instruction:
    """One instruction of a computation, as written.

    Attributes:
      name: unique in its module.
      opcode: e.g. `fusion`.
      shape: of the result.
      operands: names of the instructions whose results it reads.
      attributes: the text after the operands.
      is_root: its result is the computation's.
      literal: the text that a constant, parameter or iota has in place of operands.
    """

    name: str
    opcode: str
    shape: Shape
    operands: tuple[str, ...]
    attributes: str
    is_root: bool
    literal: str = ""

    def attribute(self, name: str) -> str | None:
        """Returns the text of a simple attribute such as `index=1` or `body=%region`, or None."""
        match = re.search(rf"(?:^|, ){name}=(\"[^\"]*\"|\{{[^}}]*\}}|[^,]+)", self.attributes)
        return match.group(1).strip() if match else None

    @property
    def in_place(self) -> dict[ShapeIndex, tuple[int, ShapeIndex]]:
        """By array that it is told to return in place, the number of its operand that it is and where in it."""
        return _aliases(self.attributes, "output_to_operand_aliasing")


class Computation:
    """A named sequence of instructions; in a scheduled module their order is the schedule.

    Lines are parsed at the first use of `instructions`.
    """

    def __init__(self, name: str, lines: list[str], path: Path) -> None:
        self.name = name
        self.lines = lines
        self._path = path

    @cached_property
    def instructions(self) -> dict[str, Instruction]:
        """The instructions by name, in order.

        Raises:
          FormatError: a line is not an instruction.
        """
        parsed = {}
        for line in self.lines:
            instruction = parse_instruction(line)
            if instruction is None:
                raise FormatError(
                    f"{self._path}: computation {self.name!r} has a line that is no HLO: {line.strip():.80}"
                )
            parsed[instruction.name] = instruction
        return parsed

    @cached_property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        for instruction in self.instructions.values():
            if instruction.is_root:
                return instruction
        raise FormatError(f"{self._path}: computation {self.name!r} has no ROOT instruction; the dump is truncated")


@dataclass(frozen=True)
class Module:
    """A scheduled HLO module.

    Attributes:
      path: the file, for messages.
      header: its first line.
      computations: by name.
      entry: the computation that the program runs.
    """

    path: Path
    header: str
    computations: dict[str, Computation]
    entry: Computation

    @property
    def partitions(self) -> int:
        """The number of devices that run the module together, each on its own part of the arrays."""
        match = re.search(r"\bnum_partitions=(\d+)", self.header)
        return int(match.group(1)) if match else 1

    @property
    def donated(self) -> dict[ShapeIndex, tuple[int, ShapeIndex]]:
        """By output that takes over the memory of an input, the number of that parameter and where in it."""
        return _aliases(self.header, "input_output_alias")


def read_module(path: Path) -> Module:
    """Reads the text of one HLO module from a file.

    Raises:
      FormatError: the file is not the text of a whole scheduled HLO module.
    """
    mend = "give the text that the compiler dumps (`xla_dump_hlo_as_text`) or `compiled.as_text()`"
    computations: dict[str, Computation] = {}
    entry: str | None = None
    name: str | None = None
    lines: list[str] = []
    try:
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
            if not header.startswith("HloModule "):
                raise FormatError(f"{path}: is no HLO: its first line does not start with `HloModule`; {mend}")
            for line in file:
                line = line.rstrip("\n")
                if name is None:
                    match = _COMPUTATION.match(line)
                    if match:
                        name, lines = match.group(2), []
                        entry = name if match.group(1) else entry
                elif line == "}" or line.startswith("}, execution_thread="):
                    computations[name] = Computation(name, lines, path)
                    name = None
                elif lines and not line.startswith(" "):
                    lines[-1] += line  # A kernel's metadata may go on over several lines.
                elif line.strip():
                    lines.append(line)
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}); {mend}") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: is no HLO: it is not text; {mend}") from error
    if name is not None or entry not in computations:
        raise FormatError(f"{path}: is truncated: it ends before the entry computation is closed; {mend}")
    if "is_scheduled=true" not in header:
        raise FormatError(f"{path}: the module is not scheduled; give a dump from after scheduling")
    return Module(path, header, computations, computations[entry])


def parse_instruction(line: str) -> Instruction | None:
    """Returns the instruction that a line holds, or None if it holds none."""
    match = _INSTRUCTION.match(line)
    if not match:
        return None
    parsed = _parse_shape(line, match.end())
    if parsed is None:
        return None
    shape, position = parsed
    opcode = _OPCODE.match(line, position)
    if not opcode:
        return None
    end = _closing(line, opcode.end() - 1)
    if end < 0:
        return None
    inner = line[opcode.end() : end]
    operands: list[str] = []
    if opcode.group(1) not in ("constant", "parameter", "iota"):
        for part in _split(_COMMENT.sub("", inner)):
            operand = _OPERAND.search(part.strip())
            if not operand:
                return None
            operands.append(operand.group(1))
    attributes = line[end + 1 :].lstrip(", ")
    return Instruction(
        name=match.group(2),
        opcode=opcode.group(1),
        shape=shape,
        operands=tuple(operands),
        attributes=attributes,
        is_root=bool(match.group(1)),
        literal="" if operands else inner,
    )


def behind(instructions: Mapping[str, Instruction], name: str, path: ShapeIndex) -> Position:
    """Returns the instruction that makes an array, and where in its result, behind tuples and bitcasts."""
    while True:
        instruction = instructions[name]
        if instruction.opcode == "get-tuple-element":
            name, path = instruction.operands[0], (int(instruction.attribute("index") or 0), *path)
        elif instruction.opcode == "tuple" and path:
            name, path = instruction.operands[path[0]], path[1:]
        elif instruction.opcode == "bitcast":
            name = instruction.operands[0]
        else:
            return name, path


def position_text(position: Position) -> str:
    """Returns the name of an array: its instruction's, and where in the result, if that is a tuple."""
    name, path = position
    return name + (path_text(path) if path else "")


def path_text(path: ShapeIndex) -> str:
    """Returns a shape index as the compiler writes it: `{}` or `{1,0}`."""
    return "{" + ",".join(map(str, path)) + "}"


def parse_path(text: str) -> ShapeIndex:
    """Returns the shape index that `{1,0}` (or the empty string) stands for."""
    inner = text.strip().strip("{}").replace(" ", "")
    return tuple(int(part) for part in inner.split(",")) if inner else ()


def _aliases(text: str, attribute: str) -> dict[ShapeIndex, tuple[int, ShapeIndex]]:
    """Returns the aliases that an attribute gives, by output; none if the text lacks it."""
    found = re.search(rf"\b{attribute}=\{{(.*?\))\s*\}}", text)
    told = _ALIAS.findall(found.group(1)) if found else []
    return {parse_path(output): (int(number), parse_path(path)) for output, number, path in told}


def _parse_shape(line: str, position: int) -> tuple[Shape, int] | None:
    """Returns the shape that starts at `position` of a line, and the position after it; None if there is none."""
    while line.startswith("/*", position):
        position = line.index("*/", position) + 2
    if not line.startswith("(", position):
        match = _ARRAY.match(line, position)
        return (Shape(match.group(0)), match.end()) if match else None
    elements = []
    position += 1
    while not line.startswith(")", position):
        parsed = _parse_shape(line, position)
        if parsed is None:
            return None
        element, position = parsed
        elements.append(element)
        if line.startswith(", ", position):
            position += 2
    return Shape("", tuple(elements)), position + 1


def _closing(line: str, opening: int) -> int:
    """Returns the position of the parenthesis that closes the one at `opening`, or -1."""
    depth = 0
    for position in range(opening, len(line)):
        if line[position] == "(":
            depth += 1
        elif line[position] == ")":
            depth -= 1
            if depth == 0:
                return position
    return -1


def _split(text: str) -> Iterator[str]:
    """Yields the parts of a text between the commas outside its brackets."""
    depth = start = 0
    for position, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if text[start:].strip():
        yield text[start:]
