"""Placement of buffers in a relaxation: the freedoms it grants, and the meaning of its columns.

Columns count shares of a buffer, from 0 to 1. A *touch* is all accesses of one instruction to one buffer; a *stretch*
lies between two touches. `placement_rows.py` makes the columns and rows.
"""

from dataclasses import dataclass

from .linear_program import Expression
from .slot_tree import SlotTree


@dataclass(frozen=True)
class Rules:
    """Freedoms that a relaxation grants; the defaults grant all, for a bound on every legal mapping.

    Attributes:
      whole: between two touches all of a buffer is kept or copied, or nothing. Gives mappings, not bounds: a legal copy
        that runs on beside a read in HBM is partly complete at that touch.
      replacements: an asynchronous copy may replace a `copy` or `slice` instruction.
      most_cross_program: most buffers with a cross-program prefetch; None for any number.
      most_capacity_rows: most instructions at which the resident buffers have to fit; fewer weaken the bound.
      in_flight: bytes in flight take memory too. Gives mappings, not bounds: slices may take memory one by one.
      capacity_share, copy_rate: shares of fast memory and of the copies' bandwidth to count on. Below 1 gives mappings
        with slack for offsets and the order of copies, which have no rows.
      thrift: cost of a copy, as a share of its time, even where an instruction hides it; under `robust` also the cost
        of the better of the two ratios. Above 0 prefers, among many optima, one with few copies.
    """

    whole: bool = False
    replacements: bool = True
    most_cross_program: int | None = None
    most_capacity_rows: int = 400
    in_flight: bool = False
    capacity_share: float = 1.0
    copy_rate: float = 1.0
    thrift: float = 0.0


@dataclass(frozen=True)
class Stretch:
    """A buffer between two touches.

    Attributes:
      kept: share that stays in fast memory throughout.
      fetched, in_hbm: `(first slot, last slot, share)`: the share in fast memory, or in HBM, after those slots. The
        first entry, at slot -1, is the share before the stretch.
    """

    kept: Expression
    fetched: list[tuple[int, int, Expression]]
    in_hbm: list[tuple[int, int, Expression]]


@dataclass
class Placement:
    """Meaning of the columns that place buffers.

    Attributes:
      fast: `(instruction, buffer)` -> column: 1 if the touch is served from fast memory. Buffers that cannot be fast,
        and those left out, have none.
      replaced: instruction -> column: 1 if a copy replaces it.
      in_hbm: `(instruction of the write, buffer)` -> share of that value that ends up in HBM.
      cross_program: buffer -> column: share that the previous execution prefetches.
      stretches: `(buffer, instruction of the touch that ends it)` -> the stretch.
      left_out: buffers that count as fast everywhere and take no memory and no copies.
      trees: time that copies demand, one tree per cost model: a mapping decides which bytes are copied between two
        touches, but the time of a copy depends on the run times of instructions.
    """

    fast: dict[tuple[int, int], int]
    replaced: dict[int, int]
    in_hbm: dict[tuple[int, int], Expression]
    cross_program: dict[int, int]
    stretches: dict[tuple[int, int], Stretch]
    left_out: frozenset[int]
    trees: list[SlotTree]
