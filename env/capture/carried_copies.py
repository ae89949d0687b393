"""Finds the copies that run across the passes of a loop (pipeline step 3).

The compiler cuts some instructions into the passes of a loop, each of which works on a slice. A pass ends the copy of
its own slice, computes, and starts the copy of the next slice (compiler pass `post-fusion-subgraph-pipelining`). The
first copy starts before the loop, and the copy that the last pass starts ends after it. The loop carries what such a
start returns.

The compiler colors the slices: they must be in fast memory, and their sources in HBM. So the place of a slice is no
choice. A slice takes fast memory from the instructions that run meanwhile, as their own scoped memory does.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..errors import UserError
from .allocation import Allocation
from .hlo import Instruction, Module, Position, behind
from .loops import Flattened


@dataclass(frozen=True)
class CarriedCopies:
    """The copies of a module that run across the passes of a loop.

    Attributes:
      starts: the instructions that start one.
      ends: the instructions that end one.
      slices: the arrays that the copies write: what a start returns of it, and what an end returns.
    """

    starts: set[str] = field(default_factory=set)
    ends: set[str] = field(default_factory=set)
    slices: set[Position] = field(default_factory=set)


def carried_copies(module: Module, flattened: Flattened) -> CarriedCopies:
    """Returns the copies that a pass of a loop ends but did not begin.

    Raises:
      UserError: such an instruction ends something other than copies.
    """
    found = CarriedCopies()
    instructions = flattened.instructions
    sources = _Sources(flattened)
    for end in instructions.values():
        if end.opcode != "async-done":
            continue
        position = behind(instructions, end.operands[0], ())
        if position not in sources:
            continue
        starts = set(sources.of(position))
        odd = [name for name, path in starts if path or instructions[name].opcode != "async-start"]
        if odd or not starts:
            raise UserError(
                f"{module.path}: instruction {end.name!r} ends what an earlier pass of its loop has begun, and "
                f"{odd[0] if odd else 'nothing'!r} begins it, which capture does not understand yet; give "
                "another version of the compiler, such as --jax 0.10.2"
            )
        found.ends.add(end.name)
        found.slices.update((end.name, path) for path, _ in end.shape.leaves())
        for start, _ in starts:
            found.starts.add(start)
            written = (path for path, _ in instructions[start].shape.leaves() if path[:1] == (1,))
            found.slices.update((start, path) for path in written)
    return found


class _Sources:
    """Where the values that loops carry come from."""

    def __init__(self, flattened: Flattened) -> None:
        self._instructions: Mapping[str, Instruction] = flattened.instructions
        self._given = {
            name: (loop.instruction.operands[0], loop.body.root.name)
            for name, loop in (flattened.loop_named | flattened.entered).items()
        }

    def __contains__(self, position: Position) -> bool:
        return position[0] in self._given

    def of(self, position: Position) -> Iterator[Position]:
        """Yields the definitions of a position, before loops and in their bodies."""
        seen: set[Position] = set()
        left = [position]
        while left:
            name, path = left.pop()
            if (name, path) in seen:
                continue
            seen.add((name, path))
            if name in self._given:
                left += [behind(self._instructions, given, path) for given in self._given[name]]
            else:
                yield name, path


def held_bytes(slices: Iterable[Allocation]) -> dict[int, int]:
    """Returns the bytes of fast memory that slices take, by time of MSA's schedule."""
    places: dict[int, dict[int, int]] = {}
    for allocation in slices:
        for time in range(allocation.start, allocation.end + 1):
            places.setdefault(time, {})[allocation.offset] = allocation.size
    return {time: sum(sizes.values()) for time, sizes in places.items()}
