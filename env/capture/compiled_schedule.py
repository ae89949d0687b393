"""A program's instructions in the compiled schedule, after memory space assignment, and in MSA's (pipeline step 4)."""

import numpy as np

from ..errors import FormatError
from .extract import Extraction
from .hlo import Instruction, Module
from .log import CompilerLog
from .loops import Flattened, flatten
from .values import FORWARDING


class CompiledSchedule:
    """Finds a program's instructions in the compiled text, and copies between them.

    Times count MSA's schedule, which also has the instructions that a program leaves out; places count the compiled
    schedule, which also has copies.

    Attributes:
      instructions: the compiled instructions, in order, by the names that they have in the log.
      place: place of an instruction, by name.
      index: the program's instructions by name.
      replaced: the program's instructions that copies replace.
      idle: its instructions that move nothing and may be elsewhere in the compiled text, or not in it.
      passed_over: both of these.
      waits: place of the wait for a copy, by the place of its issue.

    Args:
      extraction: the program.
      module: the compiled module.
      log: MSA's log.

    Raises:
      FormatError: module and log are of different compilations.
    """

    def __init__(self, extraction: Extraction, module: Module, log: CompilerLog) -> None:
        self._program = program = extraction.program
        flattened, known = flatten(module), extraction.values.flattened
        self._known_name = _known_names(flattened, known)
        self.instructions = {self.known(name): instruction for name, instruction in flattened.instructions.items()}
        self.place = {name: place for place, name in enumerate(self.instructions)}
        self.index = {name: index for index, name in enumerate(program.instruction_names)}
        replaced = {allocation.replaces for allocation in log.allocations}
        self.replaced = {index for name, index in self.index.items() if name in replaced and name not in self.place}
        ends = {root.name for root in _roots(known).values()}
        opcodes = zip(program.instruction_names, program.opcodes, strict=True)
        self.idle = {self.index[name] for name, opcode in opcodes if opcode in FORWARDING and name not in ends}
        self.passed_over = self.replaced | self.idle
        present = [name for name, index in self.index.items() if index not in self.passed_over]
        missing = [name for name in present if name not in self.place]
        if missing:
            raise FormatError(f"{module.path}: has no instruction {missing[0]!r}: the log is of another compilation")
        self._present = [self.index[name] for name in present]
        self._places = [self.place[name] for name in present]
        self._times = [int(program.schedule_index[self.index[name]]) for name in present]
        if self._places != sorted(self._places):
            raise FormatError(f"{module.path}: schedules the instructions differently from the log")
        ended = (i for i in self.instructions.values() if i.opcode.endswith("-done"))
        self.waits = {self.place[end.operands[0]]: self.place[self.known(end.name)] for end in ended}

    def known(self, name: str) -> str:
        """Returns the name that a compiled instruction had when memory was assigned."""
        return self._known_name.get(name, name)

    def last_until(self, time: int) -> int:
        """Returns the program's last instruction at or before a time, or -1."""
        return int(np.searchsorted(self._program.schedule_index, time, side="right")) - 1

    def first_from(self, time: int) -> int:
        """Returns the program's first instruction at or after a time, or `T`."""
        return int(np.searchsorted(self._program.schedule_index, time, side="left"))

    def time_before(self, name: str) -> int:
        """Returns the time of the program's last instruction that is before `name` in the compiled schedule, or -1."""
        index = int(np.searchsorted(self._places, self.place[name])) - 1
        return self._times[index] if index >= 0 else -1

    def wait_for(self, start_name: str | None) -> int | None:
        """Returns the program's instruction before which the compiled program waits for a copy; None for no wait.

        Args:
          start_name: the instruction that issues the copy.
        """
        wait = self.waits.get(self.place.get(start_name or "", -1))
        if wait is None:
            return None
        following = int(np.searchsorted(self._places, wait))
        return self._present[following] if following < len(self._present) else self._program.num_instructions


def _known_names(compiled: Flattened, known: Flattened) -> dict[str, str]:
    """Returns names of tuples at the end of loops and branches in the program, by their names in the compiled text.

    The compiler may make such a tuple anew, under another name, once it has assigned memory.
    """
    known_roots = _roots(known)
    return {
        root.name: known_roots[key].name
        for key, root in _roots(compiled).items()
        if key in known_roots
        and root.opcode == known_roots[key].opcode == "tuple"
        and known_roots[key].name not in compiled.instructions
    }


def _roots(flattened: Flattened) -> dict[tuple[str, int], Instruction]:
    """Returns the roots of loops' bodies and of branches, by the name of the `while` or `conditional`, and a number."""
    roots = {(loop.instruction.name, 0): loop.body.root for loop in flattened.whiles}
    for name, branches in flattened.conditionals.items():
        roots |= {(name, number): branch.root for number, branch in enumerate(branches)}
    return roots
