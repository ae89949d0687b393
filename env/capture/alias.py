"""Finds the values that must share memory (pipeline step 3).

These are values that MSA placed as one, donated inputs and their outputs, the sides of a loop-carried value, what the
branches of a conditional return, and operands that an operation updates in place. What a collective returns when it
ends is what it wrote since its start.
"""

from collections.abc import Iterator, Set

from .hlo import Computation, Instruction, Module, Position, ShapeIndex, position_text
from .log import CompilerLog
from .values import Values

_IN_PLACE = frozenset({"dynamic-update-slice", "scatter"})


def alias_groups(
    module: Module, values: Values, log: CompilerLog, apart: Set[str] | None = frozenset()
) -> dict[Position, Position]:
    """Returns, for every value that must share its memory with another, the leader of its group.

    Args:
      module: the scheduled module.
      values: its values.
      log: MSA's log of it.
      apart: results of updates by fusions within fusions that keep memory of their own, by name; None for all.
    """
    leader: dict[Position, Position] = {}

    def find(position: Position) -> Position:
        while leader.get(position, position) != position:
            position = leader[position]
        return position

    def join(first: Position, second: Position) -> None:
        one, other = find(first), find(second)
        leader.setdefault(one, one)
        leader[other] = one

    for group in log.alias_groups:
        members = sorted(values.resolve(name, path) for name, path in group if name not in values.elsewhere)
        for member in members[1:]:
            join(members[0], member)
    for first, second in _donations(module, values):
        join(first, second)
    for name, branches in values.flattened.conditionals.items():
        for path, _ in values.instructions[name].shape.leaves():
            for branch in branches:
                join(values.resolve(branch.root.name, path), (name, path))
    for loop in values.flattened.whiles:
        given, returned = loop.instruction.operands[0], loop.body.root.name
        for path, _ in loop.instruction.shape.leaves():
            join(values.resolve(given, path), values.resolve(returned, path))
    for end, written in values.collectives.returned.items():
        join(written, end)
    for first, second in _in_place(module, values, apart):
        # Values that MSA placed separately do not share memory.
        if first not in log.buffer_size or second not in log.buffer_size:
            join(first, second)
    return {position: find(position) for position in leader}


def _donations(module: Module, values: Values) -> Iterator[tuple[Position, Position]]:
    """Yields donated program inputs with the outputs that take over their memory."""
    parameters = {
        int(instruction.literal): instruction.name
        for instruction in module.entry.instructions.values()
        if instruction.opcode == "parameter"
    }
    root = module.entry.root.name
    for output, (number, path) in module.donated.items():
        yield (parameters[number], path), values.resolve(root, output)


def _in_place(module: Module, values: Values, apart: Set[str] | None) -> Iterator[tuple[Position, Position]]:
    """Yields operand and result of the operations that update their operand in place."""
    for instruction in values.instructions.values():
        for number, operand_path, result_path, within in _in_place_pairs(instruction, module):
            if values.instructions[instruction.operands[number]].opcode == "constant":
                continue
            if within and (apart is None or position_text((instruction.name, result_path)) in apart):
                continue
            yield values.resolve(instruction.operands[number], operand_path), (instruction.name, result_path)


def _in_place_pairs(instruction: Instruction, module: Module) -> Iterator[tuple[int, ShapeIndex, ShapeIndex, bool]]:
    """Yields operand number, operand shape index and result shape index of each in-place update.

    The last element is whether a fusion, or a kernel, within the fusion makes it.
    """
    if instruction.opcode in _IN_PLACE:
        yield 0, (), (), False
    elif instruction.opcode == "custom-call":
        for output, (number, path) in instruction.in_place.items():
            yield number, path, output, False
    elif instruction.opcode == "fusion":
        called = module.computations.get((instruction.attribute("calls") or "").lstrip("%"))
        if called is not None:
            yield from _fused_updates(called, module)


def _fused_updates(called: Computation, module: Module) -> Iterator[tuple[int, ShapeIndex, ShapeIndex, bool]]:
    """Yields the in-place updates of a fusion: its root, or an element of its root, updates a parameter."""
    root = called.root
    outputs = enumerate(root.operands) if root.opcode == "tuple" else [(-1, root.name)]
    for index, name in outputs:
        update = _look_through(called, name)
        for number, operand_path, result_path, _ in _in_place_pairs(update, module):
            parameter = _look_through(called, update.operands[number])
            if parameter.opcode == "parameter" and not operand_path and not result_path:
                within = update.opcode not in _IN_PLACE
                yield int(parameter.literal), (), () if index < 0 else (index,), within


def _look_through(called: Computation, name: str) -> Instruction:
    """Returns the instruction behind bitcasts."""
    instruction = called.instructions[name]
    while instruction.opcode == "bitcast":
        instruction = called.instructions[instruction.operands[0]]
    return instruction
