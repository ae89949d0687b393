"""Finds the definition of every array (pipeline step 3) behind tuples, loops, branches, copies and collectives."""

from ..errors import UserError
from .carried_copies import carried_copies
from .collectives import Collectives
from .hlo import Computation, Instruction, Module, Position, ShapeIndex
from .loops import flatten

# Instructions that move no data: their result is an operand under another name.
FORWARDING = frozenset(
    {"get-tuple-element", "tuple", "bitcast", "opt-barrier", "optimization-barrier", "add-dependency", "while"}
)
# Values that lie in HBM when the program starts.
INPUTS = frozenset({"parameter", "constant"})
# Beginnings of the opcodes that capture does not understand, and what to do about them.
_REFUSED = {
    "call": "inline the function that it calls, e.g. without `compute_on`",
    "send": "let the compiler shard the function, without sends and receives of your own",
    "recv": "let the compiler shard the function, without sends and receives of your own",
    "all-reduce-start": "shard it otherwise, or compile for one device",
    "ragged-all-to-all-start": "use `jax.lax.all_to_all`, or compile for one device",
}


class Values:
    """The array values of a module's entry computation, of its loops and of the branches of its conditionals.

    A loop-carried value is one value: the loop's result and the parameters of its condition and body all resolve to
    the loop's operand. So does the parameter of a branch to the operand of its conditional, whose results are values
    of their own. The operand of a running collective is one value too, whatever carries it on.

    Attributes:
      flattened: the schedule.
      instructions: its instructions by name.
      parameters: name of a parameter of a loop's condition or body, or of a branch -> the operand that it is.
      branch_parameters: those of them that belong to a branch.
      collectives: the collectives that run beside other instructions.
      carried: the copies that run across the passes of a loop.
      elsewhere: instruction that another core, or a copy, runs for one of them -> the one. MSA schedules it too.

    Raises:
      UserError: the program holds instructions that capture does not understand.
    """

    def __init__(self, module: Module) -> None:
        self.flattened = flatten(module)
        self.instructions: dict[str, Instruction] = self.flattened.instructions
        self.branch_parameters = {
            instruction.name: operand
            for name, branches in self.flattened.conditionals.items()
            # The first operand says which branch runs.
            for branch, operand in zip(branches, self.instructions[name].operands[1:], strict=True)
            for instruction in branch.instructions.values()
            if instruction.opcode == "parameter"
        }
        self.parameters = self.branch_parameters | {
            parameter: loop.instruction.operands[0] for parameter, loop in self.flattened.entered.items()
        }
        for instruction in self.instructions.values():
            advice = next((words for start, words in _REFUSED.items() if instruction.opcode.startswith(start)), None)
            if advice is not None and instruction.attribute("is_host_transfer") != "true":
                raise UserError(
                    f"{module.path}: instruction {instruction.name!r} is a `{instruction.opcode}`, which capture does "
                    f"not understand yet; {advice}"
                )
        self.carried = carried_copies(module, self.flattened)
        self.collectives = Collectives(module, self.flattened, self.carried)
        self.elsewhere: dict[str, str] = {}
        self._made_by: dict[str, str] = {}
        for instruction in self.instructions.values():
            if instruction.opcode == "async-start":
                called = _called(instruction, module)
                if called is not None:
                    self.elsewhere |= dict.fromkeys(_run_by(called, module), instruction.name)
                    self._made_by[instruction.name] = _maker(called, module)
            elif instruction.opcode == "async-update" and instruction.operands[0] in self._made_by:
                self._made_by[instruction.name] = self._made_by[instruction.operands[0]]

    def names(self, position: Position) -> list[Position]:
        """Returns the names under which the compiler may list an array.

        For a collective it lists what the collective writes, for a conditional what the branches return.
        """
        name, path = self.collectives.returned.get(position, position)
        found = [position, (name, path)]
        if name in self.flattened.conditionals:
            found += [self.resolve(branch.root.name, path) for branch in self.flattened.conditionals[name]]
        if name in self._made_by and path[:1] == (1,):
            found.append((self._made_by[name], path[1:]))
        return found

    def resolve(self, name: str, path: ShapeIndex) -> Position:
        """Returns the definition of the array at shape index `path` of instruction `name`."""
        while True:
            instruction = self.instructions[name]
            opcode = instruction.opcode
            if opcode == "get-tuple-element":
                name, path = instruction.operands[0], (int(instruction.attribute("index") or 0), *path)
            elif opcode == "tuple":
                name, path = instruction.operands[path[0]], path[1:]
            elif name in self.parameters:
                name = self.parameters[name]
            elif opcode in FORWARDING:
                name = instruction.operands[0]
            elif (name, path) in self.collectives.passed:
                name, path = self.collectives.passed[name, path]
            else:
                return name, path

    def is_carried_slice(self, position: Position) -> bool:
        """Returns whether an array is what a copy across the passes of a loop writes, under any of its names."""
        name, path = position
        return (
            bool(self.carried.slices) and name in self.instructions and self.resolve(name, path) in self.carried.slices
        )

    def operand_leaves(self, instruction: Instruction) -> "list[tuple[int, ShapeIndex, Position]]":
        """Returns operand number, shape index and definition of every array that the instruction reads."""
        leaves = []
        for number, operand in enumerate(instruction.operands):
            for path, _ in self.instructions[operand].shape.leaves():
                leaves.append((number, path, self.resolve(operand, path)))
        return leaves


def _called(instruction: Instruction, module: Module) -> Computation | None:
    """Returns the computation that a call, or the start of an asynchronous one, runs."""
    if instruction.opcode not in ("call", "async-start"):
        return None
    name = instruction.attribute("to_apply") or instruction.attribute("calls") or ""
    return module.computations.get(name.lstrip("%"))


def _run_by(computation: Computation, module: Module) -> set[str]:
    """Returns the instructions of a computation and of those that it calls, as another core runs them."""
    found = set(computation.instructions)
    for instruction in computation.instructions.values():
        called = _called(instruction, module)
        if called is not None:
            found |= _run_by(called, module)
    return found


def _maker(computation: Computation, module: Module) -> str:
    """Returns the instruction that makes what a computation returns, behind calls: the compiler lists the result so."""
    root = computation.root
    if root.opcode == "async-done":
        root = computation.instructions[root.operands[0]]
    called = _called(root, module)
    return computation.root.name if called is None else _maker(called, module)
