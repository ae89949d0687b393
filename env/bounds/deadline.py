"""The time limit of a bound, which all its parts check."""

import time


class TimeIsUp(Exception):
    """The time limit has passed inside a part that cannot end with half a result."""


class Deadline:
    """A time by which work has to end."""

    def __init__(self, seconds: float) -> None:
        """Starts the clock."""
        self._began = time.perf_counter()
        self._seconds = seconds

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._seconds - self.spent)

    def passed(self) -> bool:
        """Returns whether no time is left."""
        return self.spent >= self._seconds

    def check(self) -> None:
        """Does nothing while there is time.

        Raises:
          TimeIsUp: none is left.
        """
        if self.passed():
            raise TimeIsUp


NO_DEADLINE = Deadline(float("inf"))
