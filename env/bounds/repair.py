"""From what a relaxation chose to a mapping that verifies: a line of play that follows the choice, beside residents.

The game knows offsets, windows and write-backs, but one cross-program prefetch at most. Buffers that the relaxation
keeps for the whole program and prefetches ahead are therefore packed at the top of fast memory first; the game plays
the others below.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..game.game import COPY, DROP, NO_COPY, MallocGame
from ..program.mapping import CROSS_PROGRAM, Mapping
from ..program.program import OPERAND, Program
from ..program.target import Target
from ..verifier.verify import verify
from .placement import Placement

# From which share on something counts as chosen; in a fractional solution each gives another mapping.
_SHARES = (0.5, 0.9, 0.1)


@dataclass(frozen=True)
class Choice:
    """What a relaxation chose, as shares.

    Attributes:
      fast: `(instruction, buffer)` -> the touch is served from fast memory.
      in_hbm: `(instruction of the write, buffer)` -> the value ends up in HBM.
      ahead: buffer -> the previous execution prefetches it.
    """

    fast: dict[tuple[int, int], float]
    in_hbm: dict[tuple[int, int], float]
    ahead: dict[int, float]


def choice_of(placement: Placement, values: NDArray[np.float64]) -> Choice:
    """Returns what the columns' values say."""
    return Choice(
        {touch: float(values[column]) for touch, column in placement.fast.items()},
        {write: share.at(values) for write, share in placement.in_hbm.items()},
        {buffer: float(values[column]) for buffer, column in placement.ahead.items()},
    )


def repaired(program: Program, target: Target, choice: Choice) -> Iterator[Mapping]:
    """Yields mappings that verify, for one rounding of the choice after the other."""
    seen: set[tuple[int, ...]] = set()
    roundings = [(share, ahead) for ahead in (*_SHARES, 2.0) for share in _SHARES]
    for share, ahead in sorted(roundings, key=lambda pair: (pair != (0.5, 0.5), pair[1] != pair[0])):
        residents = _pack(program, target, [b for b, value in choice.ahead.items() if value >= ahead])
        moves, mapping = _play(program, target, choice, share, residents)
        key = (*residents, -1, *moves)
        if key not in seen:
            seen.add(key)
            if not verify(program, target, mapping):
                yield mapping


def _pack(program: Program, target: Target, buffers: list[int]) -> dict[int, int]:
    """Returns buffer -> offset of those that fit, large ones first, from the top of fast memory down."""
    low = max(int(program.reserved.max(initial=0)), target.alignment)  # the game needs some room
    top = target.fast_bytes
    offsets: dict[int, int] = {}
    for buffer in sorted(buffers, key=lambda b: (-int(program.size[b]), b)):
        offset = (top - int(program.size[buffer])) // target.alignment * target.alignment
        if offset >= low:
            offsets[buffer] = top = offset
    return offsets


def _play(
    program: Program, target: Target, choice: Choice, share: float, residents: dict[int, int]
) -> tuple[list[int], Mapping]:
    """Plays the game on what is not resident throughout; returns its moves and the mapping of both."""
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
    room = replace(target, fast_bytes=min(residents.values(), default=target.fast_bytes))
    game = MallocGame(others, room, "msa")
    while not game.done:
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
    """Returns the moves of an access in the order in which they follow the choice."""
    touch = int(program.access_instruction[access]), int(program.access_buffer[access])
    if choice.fast.get(touch, 1.0) < share:
        return DROP, NO_COPY, COPY
    if program.access_kind[access] == OPERAND or choice.in_hbm.get(touch, 0.0) < 0.5:
        return NO_COPY, COPY, DROP
    return COPY, NO_COPY, DROP
