"""Constructs mappings that verify from a solution of the relaxation: round, fit into memory, pack.

Shares are rounded, so that whole buffers stay or are copied, and copies run in the windows that the solution gives them
(`mapping_builder.py`). If the packer finds no offsets, the mapping is made to fit into less memory, or gives up
residencies one by one.
"""

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from ..packing.repack import repack
from ..physics.objective import Judge
from ..program.mapping import Mapping
from .deadline import NO_DEADLINE, Deadline, TimeIsUp
from .mapping_builder import MappingBuilder
from .placement import Placement
from .solve import Stop

# A touch counts as fast from this share on; in a fractional solution each share gives another mapping. The second
# entry: left-out buffers are placed too, which under `cycles` may cost more than it saves.
_ROUNDINGS = ((0.5, True), (0.5, False), (0.9, True), (0.2, True))
_CAPACITY_SHARES = (1.0, 0.97, 0.93, 0.87, 0.8)  # of fast memory, tried in turn until the packer finds offsets
_PACKER_SECONDS = 2.0
_NO_LIMIT_SECONDS = 3600.0


def constructed(
    judge: Judge,
    placement: Placement,
    values: NDArray[np.float64],
    stop: Stop | None = None,
    packer_nodes: int | None = None,
    deadline: Deadline = NO_DEADLINE,
) -> Iterator[Mapping]:
    """Yields mappings that verify, at most two for each rounding of the solution.

    Args:
      judge: judges the mappings.
      placement: the meaning of the columns.
      values: `[columns]` of the solution.
      stop: ends it early.
      packer_nodes: limit of the exact packer in nodes, the same on every machine; None for a time limit.
      deadline: time limit for all of it.
    """
    with suppress(TimeIsUp):
        yield from _constructed(judge, placement, values, stop or deadline.passed, packer_nodes, deadline)


def _constructed(
    judge: Judge,
    placement: Placement,
    values: NDArray[np.float64],
    stopped: Stop,
    packer_nodes: int | None,
    deadline: Deadline,
) -> Iterator[Mapping]:
    """Yields the mappings.

    Raises:
      TimeIsUp: the time limit has passed.
    """
    program, target = judge.program, judge.target
    most_seconds = _PACKER_SECONDS if packer_nodes is None else _NO_LIMIT_SECONDS
    seen: set[tuple[bool, tuple[tuple[int, int], ...]]] = set()
    for share, minor in _ROUNDINGS:
        wanted = tuple(sorted(touch for touch, column in placement.fast.items() if values[column] >= share))
        if (minor, wanted) not in seen:
            seen.add((minor, wanted))
            builder = MappingBuilder(program, target, placement, values, share=share, minor=minor, deadline=deadline)
            for capacity_share in _CAPACITY_SHARES:
                builder.fit(capacity_share)
                builder.hurry(judge, capacity_share, stopped)
                if stopped():
                    return
                packer_seconds = min(most_seconds, deadline.left)
                packed = repack(program, builder.mapping(), target, packer_seconds, packer_nodes).mapping
                if packed is not None:
                    yield packed
                    break
            if capacity_share < _CAPACITY_SHARES[0] or packed is None:
                builder = MappingBuilder(
                    program, target, placement, values, share=share, minor=minor, deadline=deadline
                )
                builder.fit(_CAPACITY_SHARES[0])
                packed = builder.shed()
                if packed is not None:
                    yield packed
