"""Reads what the compiler records about kernels of one's own, e.g. Pallas kernels (pipeline step 3).

A kernel is a custom call, or a fusion around one. The log gives the fast memory that it reserves, as for any
instruction. Its text shows whether its author stated a cost (`cost_estimate`), and which arrays must lie in which
memory. The code generator reports no cycles for it, so a cycle table prices it as memory space assignment does.
"""

from collections.abc import Iterator, Mapping

from .hlo import Instruction, Module, Position
from .kernel_colors import KERNEL, asked_by_author
from .values import Values


def kernel_in(instruction: Instruction, module: Module) -> Instruction | None:
    """Returns the kernel that an instruction is, or has been fused around; None if it has none."""
    if instruction.attribute("custom_call_target") == KERNEL:
        return instruction
    if instruction.opcode != "fusion":
        return None
    called = module.computations.get((instruction.attribute("calls") or "").lstrip("%"))
    if called is None or called.root.attribute("custom_call_target") != KERNEL:
        return None
    return called.root


def tells_cost(kernel: Instruction) -> bool:
    """Returns whether a kernel's author stated its cost; without it, the compiler counts one cycle and no bytes."""
    return '"cost_estimate":' in kernel.attributes


def kept_in_hbm(module: Module, values: Values, before: Mapping[str, Instruction]) -> Iterator[Position]:
    """Yields the definitions of the arrays that the authors of kernels want in HBM.

    Args:
      module: the scheduled module.
      values: its values.
      before: see `kernels_before`.

    Raises:
      UserError: an author wants an array in fast memory, which a program cannot express.
    """
    for instruction in values.instructions.values():
        kernel = kernel_in(instruction, module)
        if kernel is None:
            continue
        for number, path, _ in asked_by_author(module, instruction.name, kernel, before):
            if number is None:
                yield values.resolve(instruction.name, path)
            elif instruction is kernel:
                yield values.resolve(instruction.operands[number], path)
            else:  # What is fused into a kernel's operand is not an array of the program.
                called = module.computations[(instruction.attribute("calls") or "").lstrip("%")]
                given = called.instructions[kernel.operands[number]]
                if given.opcode == "parameter":
                    yield values.resolve(instruction.operands[int(given.literal)], path)
