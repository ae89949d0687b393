"""Reads the colors of kernels: the memories that their arrays must be in during the kernel (pipeline step 3).

A kernel's author can ask for them. For tpu7x the compiler also gives a color to every other array of a kernel, right
before memory space assignment (pass `tpu-custom-call-memory-space-policy`). That is the compiler's choice, like any
placement, and `xla_tpu_tpu_custom_call_memory_space_spec` overrides it. A dump from before that pass separates the
author's colors from the compiler's.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..errors import UserError
from ..program.kernel_colors import HBM
from .hlo import Instruction, Module, ShapeIndex, parse_instruction

KERNEL = '"tpu_custom_call"'
_KEYS = ("input_memory_space_colors", "output_memory_space_colors")


class Colored(NamedTuple):
    """An array of a kernel.

    Attributes:
      number: of the operand; None for a result.
      path: of the array in it.
      color: the number of the memory that it must be in.
    """

    number: int | None
    path: ShapeIndex
    color: int


def has_colors(module: Module) -> bool:
    """Returns whether a kernel of a module has colors; reads only its text."""
    return any(f'{key}":[{{' in line for line in _kernel_lines(module) for key in _KEYS)


def colors_of(kernel: Instruction) -> list[Colored]:
    """Returns the colored arrays of a kernel: operands, then results."""
    return list(_colors(kernel))


def kernels_before(module: Module, before: Module) -> dict[str, Instruction]:
    """Returns the kernels as they were before the compiler colored them.

    Args:
      module: the scheduled module.
      before: the module from before the pass that colors. Names differ; the order is the same.

    Returns:
      Kernel in `before`, by name in `module`.
    """
    then = defaultdict(list)
    for kernel in _kernels(before):
        then[_code(kernel)].append(kernel)
    now = defaultdict(list)
    for kernel in _kernels(module):
        now[_code(kernel)].append(kernel)
    return {
        kernel.name: other
        for code, kernels in now.items()
        if len(kernels) == len(then[code])
        for kernel, other in zip(kernels, then[code], strict=True)
    }


def asked_by_author(module: Module, user: str, kernel: Instruction, before: Mapping[str, Instruction]) -> list[Colored]:
    """Returns the arrays that a kernel's author wants in HBM.

    Args:
      module: the scheduled module, for messages.
      user: the instruction that the kernel is, or that has been fused around it.
      kernel: the kernel.
      before: see `kernels_before`; all colors of a kernel that it lacks count as the author's.

    Raises:
      UserError: the author wants an array in fast memory, which a program cannot express.
    """
    asked = colors_of(before.get(kernel.name, kernel))
    for array in asked:
        if array.color != HBM:
            what = f"its operand {array.number}" if array.number is not None else f"its result {list(array.path) or ''}"
            raise UserError(
                f"{module.path}: kernel {user!r} wants {what.strip()} in memory {array.color}, and a program cannot "
                "say that a buffer must be in fast memory; leave the choice to the compiler: without "
                "`with_memory_space_constraint` or `pltpu.VMEM(...)` as `out_shape`"
            )
    return asked


def _kernel_lines(module: Module) -> Iterator[str]:
    return (line for computation in module.computations.values() for line in computation.lines if KERNEL in line)


def _kernels(module: Module) -> Iterator[Instruction]:
    return (kernel for line in _kernel_lines(module) if (kernel := parse_instruction(line)) is not None)


def _code(kernel: Instruction) -> str:
    """Returns the code of a kernel as the module has it; passes rename kernels, and leave the code unchanged."""
    return kernel.attributes.partition('"body":"')[2].partition('"')[0]


def _colors(kernel: Instruction) -> Iterator[Colored]:
    # The compiler leaves zeros out, and writes numbers as text or not.
    for key in _KEYS:
        _, found, text = kernel.attributes.partition(f'"{key}":')
        for entry in json.JSONDecoder().raw_decode(text)[0] if found else ():
            number = int(entry.get("operand_index", 0)) if key.startswith("input") else None
            yield Colored(number, tuple(map(int, entry.get("shape_index", ()))), int(entry.get("color", HBM)))
