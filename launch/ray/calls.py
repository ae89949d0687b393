"""The calls to Ray actors that are under way: at most one per worker, each with the time since it began."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...env.errors import UserError
from ..config.ray import EVALUATOR, RayConfig
from .cluster import import_ray

# The learner's too: its state, for a checkpoint.
STATE = "state"
NODE = "learner's node"
# An evaluation plays every program, and may take so many times as long as other calls.
_EVALUATIONS_TAKE = 10


class Lost(Exception):
    """A part without which training cannot go on is gone."""

    def __init__(self, role: str, reason: str) -> None:
        super().__init__(f"the {role} {reason}")
        self.role = role


@dataclass
class Call:
    """A call under way.

    Attributes:
      role, index: whose.
      begin: when it began, by the monotonic clock.
      first: the worker has not answered yet, and may have to compile.
      ended: its worker has been ended because it took too long.
    """

    role: str
    index: int
    begin: float
    first: bool
    ended: bool = False


class Calls:
    """Calls by their references."""

    def __init__(self, settings: RayConfig) -> None:
        self._settings = settings
        self._calls: dict[Any, Call] = {}
        # Workers, by role and index, that have done some work.
        self._proven: set[tuple[str, int]] = set()

    def __iter__(self) -> Iterator[Call]:
        return iter(list(self._calls.values()))

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def references(self) -> list[Any]:
        """What to wait for."""
        return list(self._calls)

    def add(self, reference: Any, role: str, index: int = 0) -> None:
        """Takes note of a call that has been made."""
        self._calls[reference] = Call(role, index, time.monotonic(), (role, index) not in self._proven)

    def pop(self, reference: Any) -> Call:
        """Forgets a call that has come back, and returns it."""
        return self._calls.pop(reference)

    def under_way(self, role: str) -> bool:
        """Whether there is a call of this role."""
        return any(call.role == role for call in self)

    def drop(self, role: str) -> bool:
        """Forgets the calls of a role; returns whether there were any."""
        references = [reference for reference, call in self._calls.items() if call.role == role]
        for reference in references:
            del self._calls[reference]
        return bool(references)

    def has_worked(self, role: str, index: int = 0) -> None:
        """Takes note that a worker has done what takes longest the first time."""
        self._proven.add((role, index))

    def begins(self, role: str, index: int = 0) -> None:
        """Takes note that a worker is a new one."""
        self._proven.discard((role, index))

    def proven(self, role: str, index: int = 0) -> bool:
        """Whether a worker has worked before."""
        return (role, index) in self._proven

    def limit_s(self, call: Call) -> float:
        """Seconds after which a worker counts as hung."""
        limit = self._settings.call_timeout_s * (_EVALUATIONS_TAKE if call.role == EVALUATOR else 1)
        return limit + (self._settings.start_timeout_s if call.first else 0.0)

    def overdue(self) -> list[Call]:
        """Calls that have just become late; each is returned once."""
        late = [call for call in self if not call.ended and time.monotonic() - call.begin > self.limit_s(call)]
        for call in late:
            call.ended = True
        return late


def result_of(reference: Any, role: str, timeout_s: float) -> Any:
    """Waits for the result of a call. Raises Lost, or the UserError that the call has raised."""
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
    """Returns the end of Ray's long messages, which says most."""
    return str(error).strip().splitlines()[-1]
