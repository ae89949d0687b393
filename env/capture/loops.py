"""Flattens the control flow of a schedule (pipeline step 3) as MSA does.

A loop is its condition, then its body, then the `while` itself; a conditional is its branches, then the `conditional`.
All branches together count as a loop of one pass, and so does each of them inside it: see `Program.conditional`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from .conditionals import branches_of
from .hlo import Computation, Instruction, Module
from .log import CompilerLog


@dataclass(frozen=True)
class Loop:
    """One `while` instruction.

    Attributes:
      instruction: the `while`.
      parent: number of the enclosing loop, or -1.
      condition, body: the computations that it runs.
    """

    instruction: Instruction
    parent: int
    condition: Computation
    body: Computation


@dataclass(frozen=True)
class Once:
    """All branches of a conditional, or one of them.

    Attributes:
      instruction: the `conditional`.
      parent: number of the enclosing loop, or -1.
      branches: all of them; empty for one.
      branch: the one; None for all of them.
    """

    instruction: Instruction
    parent: int
    branches: tuple[Computation, ...] = ()
    branch: Computation | None = None


@dataclass(frozen=True)
class Flattened:
    """A module's instructions in the order of execution.

    Attributes:
      instructions: by name.
      loops: enclosing loops first.
      loop_of: number of the innermost loop by instruction name; -1 outside loops.
    """

    instructions: dict[str, Instruction]
    loops: list[Loop | Once]
    loop_of: dict[str, int]

    @cached_property
    def whiles(self) -> list[Loop]:
        """The loops proper."""
        return [loop for loop in self.loops if isinstance(loop, Loop)]

    @cached_property
    def loop_named(self) -> dict[str, Loop]:
        """The loops proper, by the name of the `while`."""
        return {loop.instruction.name: loop for loop in self.whiles}

    @cached_property
    def entered(self) -> dict[str, Loop]:
        """The loop that a parameter of a condition or body belongs to, by the parameter's name."""
        return {
            instruction.name: loop
            for loop in self.whiles
            for computation in (loop.condition, loop.body)
            for instruction in computation.instructions.values()
            if instruction.opcode == "parameter"
        }

    @cached_property
    def conditionals(self) -> dict[str, tuple[Computation, ...]]:
        """The branches of each conditional, by its name."""
        conditionals = (loop for loop in self.loops if isinstance(loop, Once) and loop.branches)
        return {loop.instruction.name: loop.branches for loop in conditionals}


def flatten(module: Module) -> Flattened:
    """Puts the instructions of all loops and branches into their places in the schedule.

    Raises:
      FormatError: a loop's condition or body, or a branch, is missing from the module.
    """
    flattened = Flattened({}, [], {})

    def walk(computation: Computation, loop: int) -> Iterator[None]:
        for instruction in computation.instructions.values():
            if instruction.opcode == "while":
                inner = len(flattened.loops)
                called = [_called(module, instruction, role) for role in ("condition", "body")]
                flattened.loops.append(Loop(instruction, loop, *called))
                for part in called:
                    yield from walk(part, inner)
            elif instruction.opcode == "conditional":
                around = len(flattened.loops)
                flattened.loops.append(Once(instruction, loop, branches_of(instruction, module)))
                for branch in branches_of(instruction, module):
                    flattened.loops.append(Once(instruction, around, branch=branch))
                    yield from walk(branch, len(flattened.loops) - 1)
            flattened.instructions[instruction.name] = instruction
            flattened.loop_of[instruction.name] = loop
            yield

    for _ in walk(module.entry, -1):
        pass
    return flattened


def _called(module: Module, instruction: Instruction, role: str) -> Computation:
    called = module.computations.get((instruction.attribute(role) or "").lstrip("%"))
    if called is None:
        raise FormatError(f"{module.path}: the {role} of loop {instruction.name!r} is missing; the dump is truncated")
    return called


@dataclass(frozen=True, eq=False)
class Nest:
    """The loops of a program. Shapes: `T` instructions, `L` loops.

    Attributes:
      loop: `[T]` number of the innermost loop; -1 outside loops.
      parent, trips, first, last, conditional: `[L]` as in `Program`.
      times: by loop, as in `AssignmentFacts.loop_times`.
      names: by loop, its instruction.
    """

    loop: NDArray[np.int32]
    parent: NDArray[np.int32]
    trips: NDArray[np.int64]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    conditional: NDArray[np.bool_]
    times: list[list[int]]
    names: list[str]


def runs(flattened: Flattened, log: CompilerLog) -> dict[int, int]:
    """Returns, by loop, how many times its instructions run in all, as the compiler assumes; 1 for loop -1.

    The compiler counts every branch of a conditional, as often as the conditional itself.
    """
    found = {-1: 1}
    for name, trips in log.trips.items():
        loop = flattened.loop_of.get(name, -1)
        if loop >= 0 and trips > 0:
            found[loop] = trips
    for number, around in enumerate(flattened.loops):
        if isinstance(around, Once) and around.parent in found:
            found[number] = found[around.parent]
    return found


def nest(names: list[str], flattened: Flattened, log: CompilerLog) -> Nest:
    """Returns the loops around the instructions `names`; loops without such an instruction are left out.

    Raises:
      FormatError: the log does not give the trips of a loop.
    """
    around = [flattened.loop_of[name] for name in names]
    spans: dict[int, tuple[int, int]] = {}
    for index, loop in enumerate(around):
        while loop >= 0:
            first, _ = spans.get(loop, (index, index))
            spans[loop] = (first, index)
            loop = flattened.loops[loop].parent
    kept = sorted(spans)
    times = {name: time for time, name in log.schedule.items()}
    number = {loop: index for index, loop in enumerate(kept)} | {-1: -1}
    totals = runs(flattened, log)
    trips = []
    for loop in kept:
        parent = flattened.loops[loop].parent
        if loop not in totals or parent not in totals:
            name = flattened.loops[loop].instruction.name
            raise FormatError(f"the compiler's log does not say how often loop {name!r} runs; capture again")
        trips.append(max(1, totals[loop] // totals[parent]))
    return Nest(
        loop=np.array([number[loop] for loop in around], np.int32),
        parent=np.array([number[flattened.loops[loop].parent] for loop in kept], np.int32),
        trips=np.array(trips, np.int64),
        first=np.array([spans[loop][0] for loop in kept], np.int32),
        last=np.array([spans[loop][1] for loop in kept], np.int32),
        conditional=np.array([bool(getattr(flattened.loops[loop], "branches", ())) for loop in kept], bool),
        times=[_times(flattened.loops[loop], times) for loop in kept],
        names=[flattened.loops[loop].instruction.name for loop in kept],
    )


def _times(loop: Loop | Once, times: dict[str, int]) -> list[int]:
    """Returns when a loop begins, takes its arguments, returns its results and ends, from the times of instructions."""
    if isinstance(loop, Loop):
        first, entered = [loop.condition], [loop.body]
    else:
        first = entered = list(loop.branches) if loop.branch is None else [loop.branch]
    begins = min(times[name] for computation in first for name in computation.instructions if name in times)
    enters = min(
        times[instruction.name]
        for computation in entered
        for instruction in computation.instructions.values()
        if instruction.opcode == "parameter"
    )
    returns = max(times[computation.root.name] for computation in entered)
    return [begins, enters, returns, times[loop.instruction.name]]
