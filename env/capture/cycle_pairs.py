"""Collects the code generator's cycles into a cycle table (pipeline step 4).

The table gives the cycles of an instruction by its placement, which is the set of its accesses that are fast.
"""

import hashlib
import json
import re
from collections import Counter, defaultdict

import numpy as np

from ..physics.cycles import kernel_completion
from ..program.cycle_table import BY_TIME, CycleTable, build_table
from ..program.mapping import COPY_FIELDS, Mapping
from ..program.program import RESULT, Program
from .extract import Extraction
from .hlo import Computation, Instruction, Module, Shape, ShapeIndex
from .loops import flatten

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_SPACE = re.compile(r"S\(\d+\)")
_METADATA = re.compile(r', (?:metadata|frontend_attributes)=\{[^{}"]*(?:"(?:[^"\\]|\\.)*"[^{}"]*)*\}')
# The last attribute: the code generator's choices, cycles included.
_BACKEND = re.compile(r", backend_config=.*$")
_NAME = re.compile(r"%[\w.\-]+")
_ORDER = re.compile(r", control-predecessors=\{[^}]*\}")

# A row of the table, and a placement.
Pair = tuple[int, int]


class CyclePairs:
    """Collects pairs of row and placement over compilations of one program.

    Instructions with identical computations and access lists share a row. The first compilation that shows an
    instruction decides its row. A later compilation in which it computes something else, because a pass after memory
    space assignment changed it, adds nothing for it.

    Attributes:
      compilations: number of compilations added.
      changed: number of times an instruction computed something else.

    Args:
      extraction: the program, without a cycle table.
      completion: of the table, see `CycleTable`.
    """

    def __init__(self, extraction: Extraction, completion: str = BY_TIME) -> None:
        program = extraction.program
        self._completion = completion
        self._program = program
        self._located: list[list[tuple[int | None, ShapeIndex]]] = [[] for _ in program.instruction_names]
        located: dict[int, tuple[int | None, ShapeIndex]] = {}
        located |= {a: (number, path) for (_, number, path), a in extraction.access_of.items()}
        located |= {a: (None, path) for (_, path), a in extraction.result_of.items()}
        for access, instruction in enumerate(program.access_instruction.tolist()):
            self._located[instruction].append(located[access])
        self._signature = [_signature(program, t) for t in range(program.num_instructions)]
        self._kernels = extraction.kernels if program.target.clock_hz > 0 else {}
        self._key: list[str | None] = [None] * program.num_instructions
        self._rows: dict[str, int] = {}
        self._seen: dict[Pair, Counter[int]] = defaultdict(Counter)
        self.compilations = 0
        self.changed = 0

    def add(self, module: Module, space: int) -> dict[str, int]:
        """Adds the pairs of one compilation.

        Args:
          module: the compiled module, from after code generation.
          space: number of the fast memory space in its layouts.

        Returns:
          Counts: `instructions` with cycles, `pairs` that they show, `new` pairs among these, `cycles` of the program's
          instructions, and `other_cycles` of all other instructions.
        """
        compiled = flatten(module).instructions
        canonical = Canonical(module)
        found: dict[str, int] = {"instructions": 0, "cycles": 0, "other_cycles": 0}
        index = {name: t for t, name in enumerate(self._program.instruction_names)}
        shown: set[Pair] = set()
        before = len(self._seen)
        for name, instruction in compiled.items():
            match = _CYCLES.search(instruction.attributes)
            if match is None:
                continue
            cycles = int(match.group(1))
            t = index.get(name)
            if t is None:
                found["other_cycles"] += cycles
                continue
            found["cycles"] += cycles
            found["instructions"] += 1
            shapes = [compiled[operand].shape for operand in instruction.operands]
            key = canonical.instruction(instruction, shapes) + self._signature[t]
            if self._key[t] is None:
                self._key[t] = key
                self._rows.setdefault(key, len(self._rows))
            elif self._key[t] != key:
                self.changed += 1
                continue
            pair = (self._rows[key], self._placement(t, instruction, shapes, space))
            self._seen[pair][cycles] += 1
            shown.add(pair)
        self.compilations += 1
        return {**found, "pairs": len(shown), "new": len(self._seen) - before}

    def _placement(self, t: int, instruction: Instruction, shapes: list[Shape], space: int) -> int:
        """Returns the placement of instruction `t` in a compilation, one bit per access; see `CycleTable`."""
        arrays: dict[int | None, dict[ShapeIndex, Shape]] = {}
        placement = 0
        for bit, (number, path) in enumerate(self._located[t]):
            if number not in arrays:
                arrays[number] = dict((instruction.shape if number is None else shapes[number]).leaves())
            if arrays[number][path].memory_space == space:
                placement |= 1 << bit
        return placement

    @property
    def pairs(self) -> int:
        """The number of pairs seen."""
        return len(self._seen)

    def unseen(self, mapping: Mapping) -> int:
        """Returns the number of pairs of a mapping for which no compilation has shown cycles."""
        program = self._program
        replaced = set(mapping.copies[:, COPY_FIELDS.index("replaces")].tolist())
        wanted: set[Pair] = set()
        for t, key in enumerate(self._key):
            if key is None or t in replaced:
                continue
            fast = mapping.access_fast[program.access_start[t] : program.access_start[t + 1]]
            wanted.add((self._rows[key], sum(1 << bit for bit in np.flatnonzero(fast).tolist())))
        return sum(pair not in self._seen for pair in wanted)

    def table(self) -> CycleTable:
        """Returns the table. A pair with several values gets the smallest, and counts as ambiguous.

        Kernels of one's own, for which the code generator reports nothing, have the cycles of memory space assignment
        under every placement. Their rows have one pair, that of nothing fast.
        """
        # Rows are numbered by the first instruction that has them.
        order: dict[int, int] = {}
        row = []
        for key in self._key:
            row.append(-1 if key is None else order.setdefault(self._rows[key], len(order)))
        pairs = {(order[r], fast): min(values) for (r, fast), values in self._seen.items()}
        alike: dict[str, int] = {}
        for t in self._kernels:
            if row[t] < 0 and self._seen:
                row[t] = alike.setdefault(_priced(self._program, t) + self._signature[t], len(order) + len(alike))
                base, _, least, most = kernel_completion(self._program, t)
                pairs[row[t], 0] = round(min(max(base, least), most))
        kernel_rows = frozenset(alike.values())
        ambiguous = sum(len(values) > 1 for values in self._seen.values())
        rows = np.array(row, np.int32)
        return build_table(rows, pairs, self.compilations, ambiguous, self._completion, kernel_rows)


def _signature(program: Program, t: int) -> str:
    """Returns a text that is equal for instructions whose placement bits mean the same accesses."""
    accesses = range(program.access_start[t], program.access_start[t + 1])
    buffers: dict[int, int] = {}
    alike = [
        (
            int(program.access_kind[a]) == RESULT,
            int(program.access_number[a]),
            program.access_path[a],
            buffers.setdefault(int(program.access_buffer[a]), len(buffers)),
        )
        for a in accesses
    ]
    return json.dumps(alike)


def _priced(program: Program, t: int) -> str:
    """Returns a text that is equal for instructions that memory space assignment prices the same."""
    accesses = slice(program.access_start[t], program.access_start[t + 1])
    fast = program.fast_allowed[program.access_buffer[accesses]]
    known = program.compute_s[t], program.bytes_total[t], program.access_bytes[accesses].tolist(), fast.tolist()
    return json.dumps([float(known[0]), float(known[1]), *known[2:]])


class Canonical:
    """Hashes of what the instructions of one module compute, equal for identical computations.

    Names, memory spaces, metadata and the code generator's choices do not count.
    """

    def __init__(self, module: Module) -> None:
        self._computations = module.computations
        self._known: dict[str, str] = {}

    def instruction(self, instruction: Instruction, shapes: list[Shape]) -> str:
        """Returns the hash of one instruction.

        Args:
          instruction: of the module.
          shapes: the shapes of its operands.
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
    """Removes memory spaces, so that `{1,0:S(1)}` and `{1,0}` become equal."""
    return _SPACE.sub("", text).replace(":}", "}").replace("]{}", "]")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]
