"""Reads the code generator's cycles: which instruction costs what when which of its accesses are fast."""

import json
import re
from collections import Counter, defaultdict

import numpy as np

from ..program.cycle_table import CycleTable, build_table
from ..program.mapping import COPY_FIELDS, Mapping
from ..program.program import RESULT, Program
from .canonical import Canonical
from .extract import Extraction
from .hlo import Instruction, Module, Shape
from .loops import flatten

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')

Pair = tuple[int, int]


class CyclePairs:
    """Collects pairs of instruction and placement over compilations of one program.

    Instructions with identical computations and access lists share a row. A row's first instruction in a compilation
    that shows it names the row; a compilation in which an instruction computes something else than in the first that
    showed it (a pass after memory space assignment changed it) adds nothing for it.

    Args:
      extraction: the program, without a cycle table.
    """

    def __init__(self, extraction: Extraction) -> None:
        program = extraction.program
        self._program = program
        self._located: list[list[tuple[int | None, tuple[int, ...]]]] = [[] for _ in program.instruction_names]
        located: dict[int, tuple[int | None, tuple[int, ...]]] = {}
        located |= {a: (number, path) for (_, number, path), a in extraction.access_of.items()}
        located |= {a: (None, path) for (_, path), a in extraction.result_of.items()}
        for access, instruction in enumerate(program.access_instruction.tolist()):
            self._located[instruction].append(located[access])
        self._signature = [_signature(program, t) for t in range(program.num_instructions)]
        self._key: list[str | None] = [None] * program.num_instructions
        self._rows: dict[str, int] = {}
        self._seen: dict[Pair, Counter[int]] = defaultdict(Counter)
        self.compilations = 0
        self.changed = 0

    def add(self, module: Module, space: int) -> dict[str, int]:
        """Takes the pairs of one compilation.

        Args:
          module: what the code generator made of it.
          space: number of the fast memory space in its layouts.

        Returns:
          Counts: `instructions` with cycles, `pairs` that they show, `new` ones, `cycles` of the program's
          instructions and `other_cycles` of all others.
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
        """Returns the placement of instruction `t` that a compilation chose; see `CycleTable`."""
        arrays: dict[int | None, dict[tuple[int, ...], Shape]] = {}
        placement = 0
        for bit, (number, path) in enumerate(self._located[t]):
            if number not in arrays:
                arrays[number] = dict((instruction.shape if number is None else shapes[number]).leaves())
            if arrays[number][path].memory_space == space:
                placement |= 1 << bit
        return placement

    @property
    def pairs(self) -> int:
        """How many pairs have been seen."""
        return len(self._seen)

    def unseen(self, mapping: Mapping) -> int:
        """Returns for how many pairs of row and placement of a mapping no compilation has shown cycles."""
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
        """Returns the table. Of several values for a pair the smallest is kept; such pairs are counted."""
        # Rows are numbered by the first instruction that has them.
        order: dict[int, int] = {}
        row = []
        for key in self._key:
            row.append(-1 if key is None else order.setdefault(self._rows[key], len(order)))
        pairs = {(order[r], fast): min(values) for (r, fast), values in self._seen.items()}
        ambiguous = sum(len(values) > 1 for values in self._seen.values())
        return build_table(np.array(row, np.int32), pairs, self.compilations, ambiguous)


def _signature(program: Program, t: int) -> str:
    """Returns what two instructions must have in common for the bits of a placement to mean the same."""
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
