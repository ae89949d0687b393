"""Adds the flag grid and the cycle table to a program, by further compilations (pipeline step 5)."""

import math
from collections.abc import Callable

from ..errors import FormatError, UserError
from ..program import compiler_flags
from ..program.compiler_flags import CompilerOptions
from ..program.mapping import Mapping
from .assemble import Assembly
from .compilations import Compilations
from .compiler import ASSIGNMENT, CODE

# Compilations through code generation, besides the default, that a capture with variants makes.
PASSES = 4
# Below this share of new pairs, further compilations are not worth their time.
_RARE = 0.02


class Variants:
    """Chooses and makes the compilations: the mapping of every option set, cycles where they add most.

    Code generation takes nine tenths of a large compilation, and it alone gives cycles. So the mappings of the grid are
    read from compilations that end before it. Then the variants whose mappings hold most unseen pairs are compiled to
    the end, and after them placements in random order, until new pairs grow rare or `passes` are spent.

    Args:
      compilations: of the function.
      assembly: the program; takes the variants and the cycles.
      passes: the most compilations through code generation.
      progress: takes one line at a time.
      until: the monotonic time after which no compilation should end.
      with_grid: read the mappings of the flag grid too. Without them all passes but the first are in random order.
    """

    def __init__(
        self,
        compilations: Compilations,
        assembly: Assembly,
        passes: int,
        progress: Callable[[str], None],
        until: float = math.inf,
        with_grid: bool = True,
    ) -> None:
        self._compilations, self._assembly, self._left, self._progress = compilations, assembly, passes, progress
        self._until, self._with_grid = until, with_grid

    def run(self) -> bool:
        """Makes the compilations; returns whether there was time for the first, without which there is no table."""
        grid = {name: options for name, options in compiler_flags.flag_grid().items() if options and self._with_grid}
        if not self._compilations.fits(CODE, self._until):
            self._progress("no time for the code generator's cycles and the flag grid")
            return False
        if self._assembly.has_carried_copies:
            self._add_cycles("in-hbm-unsliced", compiler_flags.IN_HBM_UNSLICED)
            if self._left > 1 and self._compilations.fits(CODE, self._until):
                self._add_cycles("few-copies", compiler_flags.FEW_COPIES)
        else:
            self._add_cycles("in-hbm", compiler_flags.IN_HBM)
        mappings: dict[str, Mapping] = {}
        for name, options in grid.items():
            if not self._compilations.fits(ASSIGNMENT, self._until):
                self._assembly.leave_out(options, "no time was left")
                continue
            mapping = self._add_variant(name, options)
            if mapping is not None:
                mappings[name] = mapping
        # One pass is left for a random order, which shows placements that no variant of the grid has.
        while mappings and self._left > 1 and self._compilations.fits(CODE, self._until):
            unseen = {name: self._assembly.unseen(mapping) for name, mapping in mappings.items()}
            name = max(unseen, key=unseen.__getitem__)
            if unseen[name] <= _RARE * self._assembly.pairs.pairs:
                break
            del mappings[name]
            self._add_cycles(name, grid[name])
        seed = 0
        while self._left > 0 and self._compilations.fits(CODE, self._until):
            counts = self._add_cycles(f"shuffled-{seed}", compiler_flags.shuffled(seed))
            seed += 1
            if seed > 1 and counts is not None and counts["new"] <= _RARE * self._assembly.pairs.pairs:
                break
        for name, mapping in mappings.items():
            left = self._assembly.unseen(mapping)
            if left:
                self._progress(f"{name}: the cycles of {left} of its pairs are completed, not seen")
        return True

    def _add_cycles(self, name: str, options: CompilerOptions) -> dict[str, int] | None:
        """Compiles to the end and adds the cycles; returns the counts, or None if the compilation failed."""
        self._left -= 1
        try:
            folder, _ = self._compilations.make(f"{name}-cycles", options, CODE)
            counts = self._assembly.add_cycles(folder)
        except (UserError, FormatError) as error:
            self._leave_out(name, options, error)
            return None
        self._progress(f"{name}: {counts['new']} new pairs of {counts['pairs']}")
        self._compilations.drop(folder)
        return counts

    def _add_variant(self, name: str, options: CompilerOptions) -> Mapping | None:
        """Compiles until memory is assigned and adds the mapping; returns it, or None if there is none."""
        try:
            folder, _ = self._compilations.make(name, options, ASSIGNMENT)
            mapping = self._assembly.add_variant(options, folder)
        except (UserError, FormatError) as error:
            self._leave_out(name, options, error)
            return None
        self._compilations.drop(folder)
        return mapping

    def _leave_out(self, name: str, options: CompilerOptions, error: Exception) -> None:
        self._progress(f"{name} is left out: {error}")
        self._assembly.leave_out(options, str(error))
