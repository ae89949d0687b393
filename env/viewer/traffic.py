"""HBM traffic of a simulated mapping: seconds of HBM time that instructions and copies have used, at any moment."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..physics.simulator import Timeline
from ..program.mapping import WRITE_BACK, Mapping
from ..program.target import Target


@dataclass(frozen=True, eq=False)
class Traffic:
    """Cumulative HBM time, linear between `K` moments.

    Attributes:
      seconds: `[K]` the moments, ascending, each loop body counted once.
      instructions, prefetches, write_backs: `[K]` seconds of HBM time that each has used up to the moment.
    """

    seconds: NDArray[np.float64]
    instructions: NDArray[np.float64]
    prefetches: NDArray[np.float64]
    write_backs: NDArray[np.float64]


def traffic(target: Target, mapping: Mapping, timeline: Timeline) -> Traffic:
    """Returns the HBM traffic of a mapping.

    As in the simulator, instructions come first; between the moments at which a copy first and last moves bytes, it has
    an even share of the time that they leave idle.
    """
    begin, hbm = timeline.begin_s, timeline.hbm_s
    busy_at = np.stack([begin, begin + hbm], axis=1).ravel()
    busy = np.cumsum(np.stack([np.zeros(len(hbm)), hbm], axis=1).ravel())
    moves = timeline.copy_end_s > timeline.copy_begin_s
    first, last = timeline.copy_begin_s[moves], timeline.copy_end_s[moves]
    work = (mapping.copies[moves, 5] - mapping.copies[moves, 4]) / target.hbm_bandwidth
    outward = mapping.copies[moves, 1] == WRITE_BACK
    seconds = np.unique(np.concatenate([[0.0], busy_at, first, last]))
    used = np.interp(seconds, busy_at, busy) if len(busy_at) else np.zeros(len(seconds))
    idle = seconds - used
    low, high = np.searchsorted(seconds, first), np.searchsorted(seconds, last)
    share = np.minimum(work / np.maximum(idle[high] - idle[low], 1e-15), 1.0)
    moved = []
    for way in (False, True):
        change = np.zeros(len(seconds))
        np.add.at(change, low[outward == way], share[outward == way])
        np.add.at(change, high[outward == way], -share[outward == way])
        moved.append(np.concatenate([[0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(idle))]))
    return Traffic(seconds, used, moved[0], moved[1])
