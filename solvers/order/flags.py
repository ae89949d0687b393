"""The compiler flags that a search over orders also chooses, and their values."""

from dataclasses import astuple, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.program.program import Program
from ...env.program.target import Target
from ..xla.options import Options, production


@dataclass(frozen=True)
class Flags:
    """Flags of the compiler. Numbers are relative to its defaults.

    Attributes:
      bandwidth: share of HBM's bandwidth that copies are expected to get.
      loop_optimiser: whether repeated layers are planned together, on targets where the compiler does so by default.
      cross_program: whether an input is prefetched across programs.
      slices: whether large prefetches may be cut into slices; without, decoding is two to ten times as fast.
      overlap: preferred time from the start of a prefetch to its use, and for a write-back.
      least: least time from the start of a prefetch to its use.
      served: least share of the bytes copied for a stay that it must serve.
      idle: longest stay without a use.
      trips: trips that every loop counts as.
      repacks: times that all stays may be placed anew.
    """

    bandwidth: float = 1.0
    loop_optimiser: bool = True
    cross_program: bool = True
    slices: bool = True
    overlap: float = 1.0
    least: float = 1.0
    served: float = 1.0
    idle: float = 1.0
    trips: float = 1.0
    repacks: float = 1.0

    def options(self, target: Target) -> Options:
        """Returns the options of XLA's algorithm under these flags."""
        own = production(target)
        return replace(
            own,
            copy_bandwidth_scale=self.bandwidth,
            loop_optimiser=own.loop_optimiser and self.loop_optimiser,
            cross_program=own.cross_program if self.cross_program else 0,
            max_slices=own.max_slices if self.slices else 1,
            preferred_overlap=own.preferred_overlap * self.overlap,
            min_overlap=own.min_overlap * self.least,
            inefficient_ratio=own.inefficient_ratio * self.served,
            max_overlap=own.max_overlap * self.idle,
            while_trips=own.while_trips * self.trips,
            repacks=round(own.repacks * self.repacks),
        )

    @property
    def changed(self) -> int:
        """The number of flags that are not the compiler's default."""
        return sum(value != VALUES[name][0] for name, value in vars(self).items())

    def array(self) -> NDArray[np.float64]:
        """Returns the flags as numbers, for `from_array`."""
        return np.array(astuple(self), np.float64)

    @classmethod
    def from_array(cls, numbers: NDArray[np.float64]) -> "Flags":
        """Returns the flags that `array` came from."""
        kinds = [type(values[0]) for values in VALUES.values()]
        return cls(*(kind(number) for kind, number in zip(kinds, numbers.tolist(), strict=True)))


# The values of each flag, the default first.
VALUES: dict[str, tuple[Any, ...]] = {
    "bandwidth": (1.0, 0.25, 0.35, 0.5, 0.75, 1.5, 2.0),
    "loop_optimiser": (True, False),
    "cross_program": (True, False),
    "slices": (True, False),
    "overlap": (1.0, 0.5, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0),
    "least": (1.0, 0.0, 0.001, 0.5, 1.25, 1.5),
    "served": (1.0, 1.5, 2.0, 3.0, 4.0, 8.0),
    "idle": (1.0, 0.0625, 0.125, 0.25, 0.5, 2.0, 3.0),
    "trips": (1.0, 0.4, 2.0, 4.0),
    "repacks": (1.0, 0.0, 2.5),
}


def neighbours(flags: Flags, program: Program, target: Target) -> tuple[Flags, ...]:
    """Returns the flags that differ from others in one value, and that mean something to a program and its target."""
    return _neighbours(flags, target, len(program.loop_trips) > 0)


@lru_cache(maxsize=1024)
def _neighbours(flags: Flags, target: Target, has_loops: bool) -> tuple[Flags, ...]:
    def meaning(flags: Flags) -> Options:
        return (flags if has_loops else replace(flags, trips=1.0)).options(target)

    others = (replace(flags, **{name: value}) for name, values in VALUES.items() for value in values)
    return tuple(other for other in others if meaning(other) != meaning(flags))
