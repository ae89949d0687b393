"""Finds the definition of every array (pipeline step 3) behind tuples, bitcasts, loops, copies and collectives."""

from ..errors import UserError
from .collectives import Collectives
from .hlo import Instruction, Module, Position, ShapeIndex
from .loops import flatten

# Instructions that move no data: their result is an operand under another name.
FORWARDING = frozenset(
    {"get-tuple-element", "tuple", "bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "while"}
)
# Values that lie in HBM when the program starts.
INPUTS = frozenset({"parameter", "constant"})
_REFUSED = frozenset({"conditional", "call"})
_ASYNCHRONOUS = ("send", "recv", "all-reduce-start", "ragged-all-to-all-start")


class Values:
    """The array values of a module's entry computation and of its loops.

    A loop-carried value is one value: the loop's result and the parameters of its condition and body all resolve to
    the loop's operand. The operand of a running collective is one value too, whatever carries it on.

    Attributes:
      flattened: the schedule.
      instructions: its instructions by name.
      loop_parameters: name of a parameter of a loop's condition or body -> the `while`.
      collectives: the collectives that run beside other instructions.
      elsewhere: instructions that another core runs for one of them; MSA schedules them too, at no cost.

    Raises:
      UserError: the program holds instructions that capture does not understand.
    """

    def __init__(self, module: Module) -> None:
        self.flattened = flatten(module)
        self.instructions: dict[str, Instruction] = self.flattened.instructions
        self.loop_parameters = {
            instruction.name: loop.instruction
            for loop in self.flattened.loops
            for computation in (loop.condition, loop.body)
            for instruction in computation.instructions.values()
            if instruction.opcode == "parameter"
        }
        for instruction in self.instructions.values():
            if instruction.opcode in _REFUSED or instruction.opcode.startswith(_ASYNCHRONOUS):
                raise UserError(
                    f"{module.path}: instruction {instruction.name!r} is a `{instruction.opcode}`, which capture does "
                    "not understand yet; write it without `jax.lax.cond`, and without sends and receives; for several "
                    "devices, shard it otherwise, or compile for one device"
                )
        self.collectives = Collectives(module, self.instructions, self._behind)
        self.elsewhere: set[str] = set()
        self._made_by: dict[str, str] = {}
        for instruction in self.instructions.values():
            if instruction.opcode == "async-start":
                called = module.computations.get((instruction.attribute("calls") or "").lstrip("%"))
                if called is not None:
                    self.elsewhere |= set(called.instructions)
                    self._made_by[instruction.name] = called.root.name
            elif instruction.opcode == "async-update" and instruction.operands[0] in self._made_by:
                self._made_by[instruction.name] = self._made_by[instruction.operands[0]]

    def names(self, position: Position) -> list[Position]:
        """Returns the names under which the compiler may list an array: of a collective, it lists the one it writes."""
        name, path = self.collectives.returned.get(position, position)
        found = [position, (name, path)]
        if name in self._made_by and path[:1] == (1,):
            found.append((self._made_by[name], path[1:]))
        return found

    def _behind(self, name: str, path: ShapeIndex) -> Position:
        """Returns the instruction that makes an array, and where in its result, behind tuples and bitcasts."""
        while True:
            instruction = self.instructions[name]
            if instruction.opcode == "get-tuple-element":
                name, path = instruction.operands[0], (int(instruction.attribute("index") or 0), *path)
            elif instruction.opcode == "tuple":
                name, path = instruction.operands[path[0]], path[1:]
            elif instruction.opcode == "bitcast":
                name = instruction.operands[0]
            else:
                return name, path

    def resolve(self, name: str, path: ShapeIndex) -> Position:
        """Returns the definition of the array at shape index `path` of instruction `name`."""
        while True:
            instruction = self.instructions[name]
            opcode = instruction.opcode
            if opcode == "get-tuple-element":
                name, path = instruction.operands[0], (int(instruction.attribute("index") or 0), *path)
            elif opcode == "tuple":
                name, path = instruction.operands[path[0]], path[1:]
            elif name in self.loop_parameters:
                name = self.loop_parameters[name].operands[0]
            elif opcode in FORWARDING:
                name = instruction.operands[0]
            elif opcode == "copy-done":
                name, path = instruction.operands[0], (0,)
            elif opcode == "copy-start" and path == (1,):
                name, path = instruction.operands[0], ()
            elif (name, path) in self.collectives.passed:
                name, path = self.collectives.passed[name, path]
            else:
                return name, path

    def operand_leaves(self, instruction: Instruction) -> "list[tuple[int, ShapeIndex, Position]]":
        """Returns operand number, shape index and definition of every array that the instruction reads."""
        leaves = []
        for number, operand in enumerate(instruction.operands):
            for path, _ in self.instructions[operand].shape.leaves():
                leaves.append((number, path, self.resolve(operand, path)))
        return leaves
