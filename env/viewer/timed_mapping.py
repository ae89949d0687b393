"""A mapping to be drawn: its name, and the simulated time at which each instruction begins."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..physics.simulator import Timeline
from ..program.mapping import Mapping
from .style import MICRO


@dataclass(frozen=True)
class TimedMapping:
    """A mapping with its name and its simulation."""

    name: str
    mapping: Mapping
    timeline: Timeline

    @property
    def edges_us(self) -> NDArray[np.float64]:
        """`[T + 1]` microsecond at which each instruction begins to run; the last entry is the end of the program."""
        end = self.timeline.begin_s[-1:] + self.timeline.run_s[-1:] + self.timeline.wait_s[-1]
        return np.concatenate([self.timeline.begin_s, end]) * MICRO
