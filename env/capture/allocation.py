"""Parses one allocation of memory space assignment (MSA) as its log describes it (pipeline step 2)."""

import re
from dataclasses import dataclass

from .hlo import Position, Use, parse_path

_USE = re.compile(r"([\w.\-]+), operand (\d+)(?: (\{[\d,]*\}))?")
_DEFINED = re.compile(r"defined at ([\w.\-]+)(?: (\{[\d,]*\}))?")
# What another allocation did, seen from inside a loop or after it: it issues no copy of its own.
_MIRRORS = ("MirroredAllocation", "Parent Allocation")
_MEMORY = re.compile(r" in (alt|def)(?: \(off: (-?\d+)(?:, size: (-?\d+))?\))?")


@dataclass(frozen=True)
class Allocation:
    """A part of a value's life in one memory, as MSA decided it (XLA: `Allocation`). Times count MSA's schedule.

    Attributes:
      kind: `PinnedAllocation`, `Copy Allocation`, `Sliced Copy Allocation`, ...
      fast: the value lies in fast memory.
      offset, size: bytes; -1 if unknown.
      position: the definition of the value.
      start, end: first and last time at which the memory is held.
      copy_start, copy_done: a copy is issued right after `copy_start` and done before `copy_done`; None for no copy.
      start_name: the `copy-start` instruction made for it, or None.
      source_fast: the copy reads fast memory.
      replaces: the synchronous instruction that the copy replaces, or None.
      uses: the operands served from this allocation.
    """

    kind: str
    fast: bool
    offset: int
    size: int
    position: Position
    start: int
    end: int
    copy_start: int | None
    copy_done: int | None
    start_name: str | None
    source_fast: bool
    replaces: str | None
    uses: tuple[Use, ...]


def parse_allocation(text: str) -> Allocation | None:
    """Returns the allocation that MSA describes in `text`, or None if the text is something else."""
    head, _, source = text.partition(", from ")
    memory = _MEMORY.search(head)
    times = {name: int(value) for name, value in re.findall(r"(\w+): ?(-?\d+)(?=,|$)", head)}
    defined = _DEFINED.findall(text)
    if not memory or not defined or "start_time" not in times or "end_time" not in times:
        return None
    uses = re.search(r"uses: (.*?)(?:, (?:existing )?sync_mem_op: |$)", head)
    replaced = re.search(r"sync_mem_op: ([\w.\-]+)", head)
    start_name = re.search(r"existing copy_start: ([\w.\-]+)", head)
    source_memory = _MEMORY.search(source)
    mirrors = text.startswith(_MIRRORS)
    return Allocation(
        kind=head[: memory.start()],
        fast=memory.group(1) == "alt",
        offset=int(memory.group(2) or -1),
        size=int(memory.group(3) or -1),
        position=(defined[-1][0], parse_path(defined[-1][1])),
        start=times["start_time"],
        end=times["end_time"],
        copy_start=None
        if mirrors
        else times.get("copy_start_after_time", times.get("first_slice_copy_start_after_time")),
        copy_done=None
        if mirrors
        else times.get("copy_done_before_time", times.get("last_slice_copy_done_before_time")),
        start_name=_name(start_name),
        source_fast=bool(source_memory and source_memory.group(1) == "alt"),
        replaces=_name(replaced),
        uses=tuple(
            (name, int(number), parse_path(path)) for name, number, path in _USE.findall(uses.group(1) if uses else "")
        ),
    )


def _name(match: re.Match[str] | None) -> str | None:
    return None if match is None or match.group(1) == "none" else match.group(1)
