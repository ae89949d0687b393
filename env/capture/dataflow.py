"""Which value an operand really reads: looks through tuples, bitcasts and pairs of asynchronous instructions."""

from ..errors import UserError
from .hlo import Instruction, Module
from .log import Position
from .loops import flatten

# Instructions that move no data: their result is their operand under another name.
FORWARDING = frozenset(
    {"get-tuple-element", "tuple", "bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "while"}
)
# Values that lie in HBM when the program starts.
INPUTS = frozenset({"parameter", "constant"})
_REFUSED = frozenset({"conditional", "call"})
_ASYNCHRONOUS = ("async-start", "async-update", "async-done", "send", "recv", "collective-permute-start")


class Values:
    """The array values of a module's entry computation and of its loops.

    What a loop carries is one value, whichever side of the loop's border it is looked at from: a loop's result and the
    parameters of its condition and body stand for what it is given.

    Raises:
      UserError: the program holds instructions that the extraction does not understand.
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
                    "not understand yet; write it without `jax.lax.cond`, compile for one device"
                )

    def resolve(self, name: str, path: tuple[int, ...]) -> Position:
        """Returns where the array at `path` of instruction `name` is defined."""
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
            else:
                return name, path

    def operand_leaves(self, instruction: Instruction) -> "list[tuple[int, tuple[int, ...], Position]]":
        """Returns operand number, shape index and defining position of every array that the instruction is given."""
        leaves = []
        for number, operand in enumerate(instruction.operands):
            for path, _ in self.instructions[operand].shape.leaves():
                leaves.append((number, path, self.resolve(operand, path)))
        return leaves
