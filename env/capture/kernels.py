"""Reads what the compiler says of kernels of one's own, e.g. Pallas' (pipeline step 3).

A kernel is a custom call, or a fusion around one. What it reserves of fast memory stands in the log, as for any
instruction. Its text says whether its author told a cost (`cost_estimate`), and which arrays must lie in which memory.
The code generator tells no cycles of it, so a cycle table prices it as memory space assignment does.
"""

from collections.abc import Iterator, Mapping
from itertools import product

import numpy as np

from ..physics.cost import cycle_s
from ..program.program import Program
from .hlo import Instruction, Module, Position
from .kernel_colors import KERNEL, asked_by_author
from .values import Values

# Of a kernel with more accesses than this that may be fast, a cycle table has a sample of the placements.
_ALL_PLACEMENTS = 6


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
    """Returns whether a kernel's author told its cost; without, the compiler counts one cycle, and no bytes."""
    return '"cost_estimate":' in kernel.attributes


def kept_in_hbm(module: Module, values: Values, before: Mapping[str, Instruction]) -> Iterator[Position]:
    """Yields the definitions of the arrays that the authors of kernels want in HBM.

    Args:
      module: the scheduled module.
      values: its values.
      before: see `kernels_before`.

    Raises:
      UserError: an author wants an array in fast memory, which a program cannot say.
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
            else:  # What is fused into a kernel's operand is no array of the program.
                called = module.computations[(instruction.attribute("calls") or "").lstrip("%")]
                given = called.instructions[kernel.operands[number]]
                if given.opcode == "parameter":
                    yield values.resolve(instruction.operands[int(given.literal)], path)


def kernel_cycles(program: Program, t: int) -> dict[int, int]:
    """Returns the cycles of a kernel by placement: the seconds of memory space assignment, over the clock.

    Args:
      program: the program; its target's clock is known.
      t: the kernel's instruction.

    Returns:
      Cycles, at least one, by a bit for every access of the instruction that is fast (`CycleTable`): of all placements,
      or, if these are too many, of nothing fast, everything, each access alone, and all but each.
    """
    accesses = range(program.access_start[t], program.access_start[t + 1])
    moved = [float(program.access_bytes[a]) for a in accesses]
    free = [bit for bit, a in enumerate(accesses) if program.fast_allowed[program.access_buffer[a]]]
    if len(free) <= _ALL_PLACEMENTS:
        chosen = list(product((False, True), repeat=len(free)))
    else:
        each = np.eye(len(free), dtype=bool)
        chosen = [(False,) * len(free), (True,) * len(free), *map(tuple, each.tolist()), *map(tuple, (~each).tolist())]
    target, total = program.target, float(program.bytes_total[t])
    cycles = {}
    for placement in chosen:
        bits = [bit for bit, fast in zip(free, placement, strict=True) if fast]
        near = min(sum(moved[bit] for bit in bits), total)
        memory_s = (total - near) / target.hbm_bandwidth + near / target.fast_bandwidth
        seconds = max(float(program.compute_s[t]), memory_s)
        cycles[sum(1 << bit for bit in bits)] = max(1, round(seconds / cycle_s(program, target)))
    return cycles
