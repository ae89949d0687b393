"""Finds the collectives that run beside other instructions (pipeline step 3): how they begin, go on and end.

Such a collective begins with one instruction and ends with another, and until then its operands and results must not
move. Copies to and from host memory are taken as collectives too. The compiler writes them in several ways:

- as a pair, `collective-permute-start` and `collective-permute-done`: the start returns its operands, its results, and
  semaphores;
- as three, where another core of the chip does the work (a gather on a SparseCore): `async-start` takes nothing, and an
  `async-update` hands over the operands and returns the same as a start;
- as a `copy-start` and a `copy-done` that a program has before memory is assigned: a copy to or from host memory. The
  start returns its result, its operand, and a semaphore;
- as a `send` and a `send-done`, a `recv` and a `recv-done`: a callback to the host. The send returns its operand, the
  receive its result;
- as fusions. The first calls `AsyncCollectiveStart` and returns the same. Fusions that compute carry it on: they take
  these arrays and return them in place. The last calls `AsyncCollectiveDone`.

A collective may run across a loop: it begins before, each pass carries it on, and it ends after.
"""

from collections.abc import Mapping

from ..errors import UserError
from .carried_copies import CarriedCopies
from .hlo import Instruction, Module, Position, ShapeIndex, Use, behind, path_text
from .loops import Flattened, Loop

_STARTS = {
    "collective-permute-start": "collective-permute-done",
    "all-gather-start": "all-gather-done",
    "async-start": "async-done",
    "copy-start": "copy-done",
}
# A callback's operands to the host, and its results from there.
_TRANSFERS = {"send": "send-done", "recv": "recv-done"}
_DONES = frozenset([*_STARTS.values(), *_TRANSFERS.values()])
# Instructions that are half of a pair, for which the compiler charges nothing.
PAIRS = frozenset([*_STARTS, *_STARTS.values()])
# The number of host memory in layouts.
_HOST = 5


def leaves_the_core(instructions: Mapping[str, Instruction], name: str) -> bool:
    """Returns whether an instruction hands arrays to another core of the chip or to the host, or takes them back.

    On this core such arrays are in HBM.
    """
    instruction = instructions[name]
    if instruction.opcode in ("async-done", "copy-done") and instruction.operands[0] in instructions:
        instruction = instructions[instruction.operands[0]]
    if instruction.opcode in ("async-start", "copy-start"):
        return any(array.memory_space == _HOST for _, array in instruction.shape.leaves())
    return instruction.opcode == "async-update"


class Collectives:
    """The collectives of a module's schedule.

    Attributes:
      ends: the instructions with which collectives end.
      carriers: the instructions that carry a collective on.
      passed: array that such an instruction returns, or the start -> the array of its operand that it is.
      returned: array that a collective returns when it ends -> the array that it wrote since its start.
      read: array that a start returns -> the use of the operand that it is.
      in_place: array that a start returns, and writes in place -> the number of its operand that it is.
      begun: array of a start, or of a carrier -> the array of the start that it is.

    Args:
      module: the module.
      flattened: its schedule.
      carried: the copies that run across the passes of a loop, which are not collectives.

    Raises:
      UserError: a collective is used in a way that capture does not understand.
    """

    def __init__(
        self,
        module: Module,
        flattened: Flattened,
        carried: CarriedCopies,
    ) -> None:
        self._module, self._instructions = module, flattened.instructions
        self.ends: set[str] = set()
        self.carriers: set[str] = set()
        self.passed: dict[Position, Position] = {}
        self.returned: dict[Position, Position] = {}
        self.read: dict[Position, Use] = {}
        self.in_place: dict[Position, int] = {}
        self.begun: dict[Position, Position] = {}
        for instruction in self._instructions.values():
            name = instruction.name
            if name in carried.starts:
                for path, (number, inner) in self._written_out(instruction, 0).items():
                    self.passed[name, path] = (instruction.operands[number], inner)
            elif name in flattened.entered:
                self._pass_on(instruction, flattened.entered[name].instruction.operands[0])
            elif name in flattened.loop_named:
                self._check_passes(flattened.loop_named[name])
                self._pass_on(instruction, instruction.operands[0])
            elif name not in carried.ends:
                self._take(instruction)

    def is_context(self, position: Position) -> bool:
        """Returns whether an array of a collective holds no data: a semaphore, or the like."""
        start, path = self.begun.get(position, position)
        shape = dict(self._instructions[start].shape.leaves())[path]
        if self._instructions[start].opcode != "fusion":
            return path[0] > (0 if self._instructions[start].opcode in _TRANSFERS else 1)
        return shape.memory_space != 0

    def of(self, name: str, path: ShapeIndex) -> Position | None:
        """Returns the array of a start that an array is, or None if it belongs to no running collective."""
        return self.begun.get(behind(self._instructions, name, path))

    def _calls(self, instruction: Instruction, target: str) -> bool:
        """Returns whether a fusion does nothing but call a custom call."""
        if instruction.opcode != "fusion":
            return False
        called = self._module.computations.get((instruction.attribute("calls") or "").lstrip("%"))
        return called is not None and called.root.attribute("custom_call_target") == f'"{target}"'

    def _written_out(self, start: Instruction, skipped: int) -> dict[ShapeIndex, tuple[int, ShapeIndex]]:
        """Returns, by array that a start of a pair returns, the number of its operand that it is and where in it.

        The first `skipped` operands are not the collective's.
        """
        elements = start.shape.elements or ()
        given = elements[0] if elements else start.shape
        count = 1 if given.elements is None else len(given.elements)
        if len(elements) < 2 or count != len(start.operands) - skipped:
            raise self._not_understood(start, "returns no pair of its operands and its results")
        found: dict[ShapeIndex, tuple[int, ShapeIndex]] = {}
        for path, _ in given.leaves():
            found[0, *path] = (skipped, path) if given.elements is None else (path[0] + skipped, path[1:])
        return found

    def _start(self, start: Instruction, given: dict[ShapeIndex, tuple[int, ShapeIndex]]) -> None:
        for path, _ in start.shape.leaves():
            self.begun[start.name, path] = (start.name, path)
        if start.opcode != "fusion":
            self.in_place |= {(start.name, path): number for path, (number, _) in start.in_place.items()}
        for path, (number, inner) in given.items():
            self.passed[start.name, path] = (start.operands[number], inner)
            self.read[start.name, path] = (start.name, number, inner)

    def _take(self, instruction: Instruction) -> None:
        """Takes an instruction that may start a collective, carry it on, or end it."""
        if instruction.opcode == "copy-start":
            self._start(instruction, {(1,): (0, ())})
        elif instruction.opcode in _TRANSFERS:
            self._start(instruction, {(0,): (0, ())} if instruction.opcode == "send" else {})
        elif instruction.opcode in _STARTS:
            self._start(instruction, self._written_out(instruction, 0))
        elif instruction.opcode == "async-update" and len(instruction.operands) > 1:
            self._start(instruction, self._written_out(instruction, 1))
        elif self._calls(instruction, "AsyncCollectiveStart"):
            self._start(instruction, instruction.in_place)
        elif instruction.opcode not in ("tuple", "get-tuple-element", "bitcast"):
            self._use(instruction)

    def _pass_on(self, instruction: Instruction, given: str) -> None:
        """Takes a loop, or the parameter of its condition or body: both are the loop's operand."""
        for path, _ in instruction.shape.leaves():
            begun = self.of(given, path)
            if begun is not None:
                self.begun[instruction.name, path] = begun

    def _check_passes(self, loop: Loop) -> None:
        """Raises UserError if a pass of a loop does not carry on what runs when it begins, and nothing else."""
        for path, _ in loop.instruction.shape.leaves():
            if self.of(loop.instruction.operands[0], path) != self.of(loop.body.root.name, path):
                raise self._not_understood(loop.instruction, f"has passes that begin or end it, at {path_text(path)}")

    def _use(self, user: Instruction) -> None:
        """Takes an instruction that may carry a collective on, or end it."""
        arrays = {
            (number, path): begun
            for number, operand in enumerate(user.operands)
            for path, _ in self._instructions[operand].shape.leaves()
            if (begun := self.of(operand, path)) is not None
        }
        if user.opcode in _DONES or self._calls(user, "AsyncCollectiveDone"):
            self.ends.add(user.name)
            self._end(user, arrays)
        elif user.opcode == "async-update":
            self._carry(user, {path: (0, path) for path, _ in user.shape.leaves()}, arrays)
        elif arrays:
            self._carry(user, user.in_place, arrays)

    def _carry(
        self,
        carrier: Instruction,
        given: dict[ShapeIndex, tuple[int, ShapeIndex]],
        arrays: dict[tuple[int, ShapeIndex], Position],
    ) -> None:
        lost = arrays.keys() - set(given.values())
        if lost:
            raise self._not_understood(carrier, f"takes the operand {min(lost)[0]} of a running collective")
        self.carriers.add(carrier.name)
        for path, (number, inner) in given.items():
            if (number, inner) in arrays:
                self.passed[carrier.name, path] = (carrier.operands[number], inner)
                self.begun[carrier.name, path] = arrays[number, inner]

    def _end(self, end: Instruction, arrays: dict[tuple[int, ShapeIndex], Position]) -> None:
        starts = {start for start, _ in arrays.values()}
        if len(starts) != 1:
            raise self._not_understood(end, f"ends {len(starts)} collectives")
        if end.opcode == "fusion":
            pairs = {path: arrays.get(given) for path, given in end.in_place.items()}
        else:
            prefix = {"copy-done": (0,), "recv-done": ()}.get(end.opcode, (1,))
            pairs = {path: arrays.get((0, (*prefix, *path))) for path, _ in end.shape.leaves()}
        for path, _ in end.shape.leaves():
            begun = pairs.get(path)
            if begun is None or begun in self.read:
                raise self._not_understood(end, "returns an array that its start did not begin to write")
            self.returned[end.name, path] = begun

    def _not_understood(self, instruction: Instruction, trouble: str) -> UserError:
        return UserError(
            f"{self._module.path}: instruction {instruction.name!r}, a `{instruction.opcode}` of an asynchronous "
            f"collective, {trouble}, which capture does not understand yet; shard the function so that the collective "
            "is not asynchronous, or compile for one device"
        )
