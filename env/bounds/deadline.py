"""The time limit of a bound, which all its parts check; a request to stop ends them as the limit does."""

import time
from collections.abc import Callable


class TimeIsUp(Exception):
    """No time is left inside a part that cannot end with half a result."""


class Deadline:
    """A time by which work has to end."""

    def __init__(self, seconds: float, stop: Callable[[], bool] | None = None) -> None:
        """Starts the clock.

        Args:
          seconds: time from now on.
          stop: no time is left once it returns True; None for the clock alone.
        """
        self._began = time.perf_counter()
        self._seconds = seconds
        self._stop = stop

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return 0.0 if self.stopped else max(0.0, self._seconds - self.spent)

    @property
    def stopped(self) -> bool:
        """Whether work has to end although the clock may have time left."""
        return self._stop is not None and self._stop()

    def passed(self) -> bool:
        """Returns whether no time is left."""
        return self.stopped or self.spent >= self._seconds

    def check(self) -> None:
        """Does nothing while there is time.

        Raises:
          TimeIsUp: none is left.
        """
        if self.passed():
            raise TimeIsUp


NO_DEADLINE = Deadline(float("inf"))
