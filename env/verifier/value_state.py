"""State of a buffer's value at one moment: which places hold it, and for the others the reason why not."""

from dataclasses import dataclass
from typing import NamedTuple

from .violation import Report


class Stale(NamedTuple):
    """The reason why a place does not hold the current value.

    Attributes:
      text: the reason in words.
      instruction: the instruction that made the place stale; -1 for none.
      loop: the place is stale only from the second iteration of this loop on; -1 for always.
      subject: the instruction that the words begin with; -1 for none. Few places are ever asked for their reason, so
        names are looked up only then.
    """

    text: str
    instruction: int = -1
    loop: int = -1
    subject: int = -1

    def words(self, report: Report) -> str:
        """Returns the reason."""
        return self.text if self.subject < 0 else f"{report.instruction(self.subject)} {self.text}"


NEVER_WRITTEN = Stale("nothing has written it")
NEVER_FILLED = Stale("no complete prefetch and no result has filled it")


@dataclass
class State:
    """The places that hold the current value; None where a place does.

    Attributes:
      hbm: per byte segment, HBM.
      fast: per interval of `ResidentIntervals`, fast memory.
      version: number of writes so far, so that a copy notices one that came between its issue and its end.
      writer: instruction of the last write, -1 before the first.
      pending: number of a copy in flight -> version at its issue.
      replaced: instructions of which a replacing copy has been issued.
    """

    hbm: list[Stale | None]
    fast: list[Stale | None]
    version: int
    writer: int
    pending: dict[int, int]
    replaced: frozenset[int]

    def copy(self) -> "State":
        """Returns an independent copy."""
        return State(list(self.hbm), list(self.fast), self.version, self.writer, dict(self.pending), self.replaced)
