"""Repairs a choice of the relaxation into mappings that verify: the game plays it, beside buffers that stay throughout.

The game takes care of offsets, windows and write-backs, but allows one cross-program prefetch at most. Buffers with
cross-program prefetches are therefore packed at the top of fast memory first; the game plays the others below.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..game.game import MallocGame
from ..game.moves import COPY, DROP, NO_COPY
from ..program.mapping import CROSS_PROGRAM, Mapping
from ..program.program import OPERAND, Program
from ..program.target import Target
from ..verifier.verify import verify
from .deadline import NO_DEADLINE, Deadline, TimeIsUp
from .placement import Placement

# A touch counts as chosen from this share on; in a fractional solution each share gives another mapping.
_SHARES = (0.5, 0.9, 0.1)


@dataclass(frozen=True)
class Choice:
    """The choice of a relaxation, as shares.

    Attributes:
      fast: `(instruction, buffer)` -> share of the touch that is served from fast memory.
      in_hbm: `(instruction of the write, buffer)` -> share of the value that ends up in HBM.
      cross_program: buffer -> share that the previous execution prefetches.
    """

    fast: dict[tuple[int, int], float]
    in_hbm: dict[tuple[int, int], float]
    cross_program: dict[int, float]


def choice_of(placement: Placement, values: NDArray[np.float64]) -> Choice:
    """Returns the choice in a solution (`values`, `[columns]`)."""
    return Choice(
        {touch: float(values[column]) for touch, column in placement.fast.items()},
        {write: share.at(values) for write, share in placement.in_hbm.items()},
        {buffer: float(values[column]) for buffer, column in placement.cross_program.items()},
    )


def repaired(program: Program, target: Target, choice: Choice, deadline: Deadline = NO_DEADLINE) -> Iterator[Mapping]:
    """Yields mappings that verify, one for each rounding of the choice that gives a new line of play, in time."""
    with suppress(TimeIsUp):
        yield from _repaired(program, target, choice, deadline)


def _repaired(program: Program, target: Target, choice: Choice, deadline: Deadline) -> Iterator[Mapping]:
    """Yields the mappings.

    Raises:
      TimeIsUp: the time limit has passed.
    """
    seen: set[tuple[int, ...]] = set()
    roundings = [(share, ahead) for ahead in (*_SHARES, 2.0) for share in _SHARES]
    for share, ahead in sorted(roundings, key=lambda pair: (pair != (0.5, 0.5), pair[1] != pair[0])):
        residents = _pack(program, target, [b for b, value in choice.cross_program.items() if value >= ahead])
        moves, mapping = _play(program, target, choice, share, residents, deadline)
        key = (*residents, -1, *moves)
        if key not in seen:
            seen.add(key)
            if not verify(program, target, mapping):
                yield mapping


def _pack(program: Program, target: Target, buffers: list[int]) -> dict[int, int]:
    """Returns the offsets of the buffers that fit, large ones first, from the top of fast memory down."""
    low = max(int(program.reserved.max(initial=0)), target.alignment)  # the game needs some memory
    top = target.fast_bytes
    offsets: dict[int, int] = {}
    for buffer in sorted(buffers, key=lambda b: (-int(program.fast_size[b]), b)):
        offset = (top - int(program.fast_size[buffer])) // target.alignment * target.alignment
        if offset >= low:
            offsets[buffer] = top = offset
    return offsets


def _play(
    program: Program, target: Target, choice: Choice, share: float, residents: dict[int, int], deadline: Deadline
) -> tuple[list[int], Mapping]:
    """Plays the game below buffers that stay throughout (`residents`); returns its moves and the whole mapping."""
    kept = np.zeros(program.num_buffers, bool)
    kept[list(residents)] = True
    of_kept = kept[program.access_buffer]
    moved = np.bincount(
        program.access_instruction[of_kept],
        weights=program.access_bytes[of_kept],
        minlength=program.num_instructions,
    )
    others = replace(
        program,
        fast_allowed=program.fast_allowed & ~kept,
        access_bytes=np.where(of_kept, 0.0, program.access_bytes),
        bytes_total=np.maximum(program.bytes_total - moved, 0.0),
        production=None,
        cycles=None,
        variants=(),
    )
    below = replace(target, fast_bytes=min(residents.values(), default=target.fast_bytes))
    game = MallocGame(others, below, "msa")
    while not game.done:
        deadline.check()
        game.step(next(move for move in _preferences(program, choice, game.access, share) if game.legal[move]))
    played = game.mapping()
    last, size = program.num_instructions - 1, program.size.tolist()
    stay = [[buffer, 0, last, offset, 0, size[buffer]] for buffer, offset in residents.items()]
    ahead = [[buffer, CROSS_PROGRAM, -1, 0, 0, size[buffer], buffer, -1] for buffer in residents]
    mapping = Mapping(
        program.sha256,
        played.access_fast | of_kept,
        np.concatenate([np.array(stay, np.int64).reshape(-1, 6), played.residencies]),
        np.concatenate([np.array(ahead, np.int64).reshape(-1, 8), played.copies]),
        {"solver": "bound"},
    )
    return game.actions, mapping


def _preferences(program: Program, choice: Choice, access: int, share: float) -> tuple[int, int, int]:
    """Returns the moves of an access, the one closest to the choice first."""
    touch = int(program.access_instruction[access]), int(program.access_buffer[access])
    if choice.fast.get(touch, 1.0) < share:
        return DROP, NO_COPY, COPY
    if program.access_kind[access] == OPERAND or choice.in_hbm.get(touch, 0.0) < 0.5:
        return NO_COPY, COPY, DROP
    return COPY, NO_COPY, DROP
