"""The calls to Ray actors that are under way, each with its worker and the time when it began."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ...env.errors import UserError
from ..config.ray import EVALUATOR, RayConfig
from .cluster import import_ray

# The role of a second call to the learner, which returns its state for a checkpoint.
STATE = "state"
NODE = "learner's node"
# An evaluation plays every program: it may take this many times as long as other calls.
_EVALUATION_FACTOR = 10


class Lost(Exception):
    """A part of the run that training cannot go on without is gone; `role` names it."""

    def __init__(self, role: str, reason: str) -> None:
        super().__init__(f"the {role} {reason}")
        self.role = role


@dataclass
class Call:
    """A call under way.

    Attributes:
      role, index: the worker.
      begin: time of the call, by the monotonic clock; while the worker is not there, time of the last look.
      first: the worker has not worked before, and may have to compile.
      there: the worker's process has been seen.
      made: time of the call, by the monotonic clock.
      ended: the worker has been ended because the call took too long.
      told: it has been said that the worker is not there yet.
    """

    role: str
    index: int
    begin: float
    first: bool
    there: bool
    made: float
    ended: bool = False
    told: bool = False


class Calls:
    """The calls under way by their references, and the workers that have proven to work.

    Args:
      settings: the time-outs.
      is_there: whether the process of a worker, by role and index, is there. Ray may have no room for it for long.
    """

    def __init__(self, settings: RayConfig, is_there: Callable[[str, int], bool]) -> None:
        self._settings, self._is_there = settings, is_there
        self._calls: dict[Any, Call] = {}
        # Workers, as role and index, that have completed a piece of work.
        self._proven: set[tuple[str, int]] = set()

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def references(self) -> list[Any]:
        """The references, for `ray.wait`."""
        return list(self._calls)

    def add(self, reference: Any, role: str, index: int = 0) -> None:
        """Adds a call that has just been made."""
        proven = self.proven(role, index)
        now = time.monotonic()
        self._calls[reference] = Call(role, index, now, first=not proven, there=proven, made=now)

    def pop(self, reference: Any) -> Call:
        """Removes a call that has completed, and returns it."""
        return self._calls.pop(reference)

    def under_way(self, role: str) -> bool:
        """Returns whether a call of this role is under way."""
        return any(call.role == role for call in self)

    def begun_since(self, role: str, moment: float) -> bool:
        """Returns whether all calls of a role that are under way began after a moment, by the monotonic clock."""
        return all(call.begin > moment for call in self if call.role == role)

    def drop(self, role: str) -> bool:
        """Removes the calls of a role; returns whether there were any."""
        references = [reference for reference, call in self._calls.items() if call.role == role]
        for reference in references:
            del self._calls[reference]
        return bool(references)

    def drop_absent(self) -> None:
        """Removes the calls to workers that are not there."""
        self._look()
        for reference in [reference for reference, call in self._calls.items() if not call.there]:
            del self._calls[reference]

    def has_worked(self, role: str, index: int = 0) -> None:
        """Notes that a worker has worked: its later calls need not compile."""
        self._proven.add((role, index))

    def begins(self, role: str, index: int = 0) -> None:
        """Notes that a new worker takes this place."""
        self._proven.discard((role, index))

    def proven(self, role: str, index: int = 0) -> bool:
        """Returns whether a worker has worked since it was started."""
        return (role, index) in self._proven

    def limit_s(self, call: Call) -> float:
        """Returns the seconds after which the worker of a call counts as hung."""
        limit = self._settings.call_timeout_s * (_EVALUATION_FACTOR if call.role == EVALUATOR else 1)
        return limit + (self._settings.start_timeout_s if call.first else 0.0)

    def overdue(self) -> list[Call]:
        """Returns the calls that have become late since the last look; each is returned once.

        A call does not become late while its worker is not there.
        """
        self._look()
        late = [call for call in self if not call.ended and time.monotonic() - call.begin > self.limit_s(call)]
        for call in late:
            call.ended = True
        return late

    def absent(self) -> list[Call]:
        """Returns the calls whose worker was not there at the last look of `overdue`, though it has had the time of a
        start; each is returned once."""
        limit_s = self._settings.start_timeout_s
        found = [c for c in self if not c.there and not c.told and time.monotonic() - c.made > limit_s]
        for call in found:
            call.told = True
        return found

    def _look(self) -> None:
        for call in self:
            call.there = call.there or self._is_there(call.role, call.index)
            if not call.there:
                call.begin = time.monotonic()


def result_of(reference: Any, role: str, timeout_s: float) -> Any:
    """Returns the result of a call once it is ready. Raises Lost, or the UserError that the call has raised."""
    ray = import_ray()
    try:
        return ray.get(reference, timeout=timeout_s)
    except ray.exceptions.GetTimeoutError as error:
        raise Lost(role, f"does not answer within {timeout_s:.0f} s") from error
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, UserError):
            raise cause from error
        raise Lost(role, f"died ({last_line(error)})") from error


def last_line(error: Exception) -> str:
    """Returns the last line of one of Ray's long messages, which names the cause."""
    return str(error).strip().splitlines()[-1]
