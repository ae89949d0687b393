"""The arrays of kernels, and the option that chooses the memory of each during its kernel.

For tpu7x the compiler chooses by itself before it places anything. The option
`xla_tpu_tpu_custom_call_memory_space_spec` chooses otherwise, kernel by kernel (found by experiment, libtpu 0.0.51):
a list of memories for all arrays of a kernel, operands first. The kernel's name is the one that it has at that point.
"""

import numpy as np
from numpy.typing import NDArray

from ..env.program.compiler_flags import COLORS, CompilerOptions
from ..env.program.kernel_colors import FAST, HBM, kernel_colors, own_colors
from ..env.program.program import RESULT, Program
from ..env.program.target import Target


class KernelArrays:
    """The colored arrays of one program. Shapes: `A` accesses, `S` arrays that may be chosen.

    Attributes:
      own: `[A]` the compiler's own colors: 1 for fast memory, 0 for HBM, -1 for accesses without.
      access: `[S]` the accesses whose color is worth choosing.
    """

    def __init__(self, program: Program, target: Target, worth: NDArray[np.bool_]) -> None:
        """Collects the arrays; `worth[N]` is whether a buffer matters enough for an option."""
        self._program, self._kernels, self.own = program, kernel_colors(program), own_colors(program)
        self._room = target.fast_bytes - program.reserved
        self._bytes = target.align(program.fast_size)[program.access_buffer]
        buffer = program.access_buffer
        may = (self.own >= 0) & worth[buffer] & program.fast_allowed[buffer]
        may &= program.fast_size[buffer] <= self._room[program.access_instruction]
        # What the program returns must be in HBM; the compiler crashes if an option puts it elsewhere.
        may &= ~(program.is_output[buffer] & (program.access_kind == RESULT))
        self.access: NDArray[np.int64] = np.flatnonzero(may)
        # Accesses of one kernel to one buffer share a color.
        self._pair = program.access_instruction.astype(np.int64) * (program.num_buffers + 1) + buffer

    def with_color(
        self, colors: NDArray[np.int8], accesses: NDArray[np.int64], color: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """Returns colors `[A]` with those of some `accesses[M]` set, fast where `color[M]` is true.

        Other accesses of the same kernel to the same buffer follow. If a kernel's arrays then no longer fit, its colors
        stay as they were.
        """
        changed = colors.copy()
        may = np.isin(accesses, self.access)
        for access, is_fast in zip(accesses[may].tolist(), color[may].tolist(), strict=True):
            same = (self._pair == self._pair[access]) & (self.own >= 0)
            changed[same] = FAST if is_fast else HBM
        full = self._too_full(changed)
        back = np.isin(self._program.access_instruction, full)
        changed[back] = colors[back]
        return changed

    def _too_full(self, colors: NDArray[np.int8]) -> NDArray[np.int64]:
        """Returns the instructions whose colored arrays do not fit into fast memory beside what they reserve."""
        fast = np.flatnonzero(colors == FAST)
        _, first = np.unique(self._pair[fast], return_index=True)
        once = fast[first]
        load = np.zeros(self._program.num_instructions, np.int64)
        np.add.at(load, self._program.access_instruction[once], self._bytes[once])
        return np.flatnonzero(load > self._room)

    def option(self, colors: NDArray[np.int8]) -> CompilerOptions:
        """Returns the option for those kernels whose colors `[A]` are not the compiler's own; none if all are."""
        specs = []
        for kernel in self._kernels:
            access = np.array(kernel.access)
            chosen = np.where(access >= 0, colors[access], kernel.color)
            if (chosen != kernel.color).any():
                name = kernel.name.replace(".", "[.]")
                memories = " ".join(f"colors: {color}" for color in chosen.tolist())
                specs.append(
                    f'instruction_forced_coloring_specs {{ module_re: ".*" instruction_re: "{name}" {memories} }}'
                )
        return {COLORS: f"forced_coloring_policy {{ {' '.join(specs)} }}"} if specs else {}
