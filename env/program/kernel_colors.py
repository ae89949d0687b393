"""The colors that the compiler has given to the arrays of kernels, in a program's `compiler` section.

For tpu7x it chooses, before memory space assignment and kernel by kernel, which arrays have to be in fast memory during
the kernel and which in HBM (`xla_tpu_tpu_custom_call_memory_space_spec`). Nothing in a program's problem depends on it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from .program import Program

# The key in `Program.compiler`.
KERNEL_COLORS = "kernel_colors"
# The key of the accesses that other instructions must have in fast memory: results that loops cut into slices.
COLORED_FAST = "colored_fast"
# Colors, and the lack of one.
HBM, FAST, FREE = 0, 1, -1


@dataclass(frozen=True)
class KernelColors:
    """One kernel, and all of its arrays: operands, then results.

    Attributes:
      name: the kernel's name where the compiler colors it, which is not its name in the program.
      access: the access of every array; -1 for one that a program does not have.
      color: 1 for an array that has to be in fast memory, 0 for one in HBM, -1 for one without a color.
    """

    name: str
    access: list[int]
    color: list[int]


def kernel_colors(program: Program) -> list[KernelColors]:
    """Returns the kernels that the compiler has colored; none for programs of targets where it does not.

    Raises:
      FormatError: the program's entry is not what `capture` writes.
    """
    found = []
    rows = program.compiler.get(KERNEL_COLORS, [])
    if not isinstance(rows, list):
        raise FormatError(f"program {program.name!r}: `compiler.{KERNEL_COLORS}` is no list; capture it again")
    for row in rows:
        kernel = _kernel(row)
        if kernel is None:
            raise FormatError(
                f"program {program.name!r}: `compiler.{KERNEL_COLORS}` has a wrong entry, {row!r:.200}; "
                "capture it again"
            )
        if len(kernel.access) != len(kernel.color) or not all(-1 <= a < program.num_accesses for a in kernel.access):
            raise FormatError(
                f"program {program.name!r}: `compiler.{KERNEL_COLORS}` of kernel {kernel.name!r} names accesses that "
                "the program does not have; capture it again"
            )
        found.append(kernel)
    return found


def own_colors(program: Program) -> NDArray[np.int8]:
    """Returns `[A]` the color that the compiler has given to each access: `FAST`, `HBM` or `FREE`.

    Raises:
      FormatError: the program's entries are not what `capture` writes.
    """
    found = np.full(program.num_accesses, FREE, np.int8)
    for kernel in kernel_colors(program):
        access = np.array(kernel.access, np.int64)
        found[access[access >= 0]] = np.array(kernel.color, np.int8)[access >= 0]
    found[_colored_fast(program)] = FAST
    return found


def _kernel(row: Any) -> KernelColors | None:
    """Returns the kernel of an entry; None if it is not what `capture` writes."""
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    access, color = row.get("access"), row.get("color")
    if not isinstance(access, list) or not all(type(number) is int for number in access):
        return None
    if not isinstance(color, list) or not all(type(c) is int and c in (HBM, FAST, FREE) for c in color):
        return None
    return KernelColors(row["name"], access, color)


def _colored_fast(program: Program) -> list[int]:
    found = program.compiler.get(COLORED_FAST, [])
    if not isinstance(found, list) or not all(type(a) is int and 0 <= a < program.num_accesses for a in found):
        raise FormatError(
            f"program {program.name!r}: `compiler.{COLORED_FAST}` is no list of its accesses; capture it again"
        )
    return found
