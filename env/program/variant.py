"""Defines `Variant`: a compilation of a program under other options, from the grid behind `production_tuned`."""

from dataclasses import dataclass, field

from .mapping import Mapping


@dataclass(frozen=True, eq=False)
class Variant:
    """One compilation of the grid.

    Attributes:
      options: the compiler options that differ from the default, by name; none for the default itself.
      latency_s: steady seconds of its mapping under each cost model; None where the mapping could not be read back and
        verified, or where a model cannot price it.
      inexpressible: parts of its mapping that could not be read back, and rules that it breaks: a count per reason.
      mapping: its mapping, if the file keeps it: the best under a cost model or under both, and not the default.
    """

    options: dict[str, str]
    latency_s: dict[str, float | None]
    inexpressible: dict[str, int] = field(default_factory=dict)
    mapping: Mapping | None = None
