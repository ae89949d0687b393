"""Plans of other processes that search the same program at the same time."""

import contextlib
import io
import os
from pathlib import Path

import numpy as np

from ...env.game.plan import Plan


class PlanExchange:
    """A folder to which each of several processes writes its best plan, whole, and from which it reads those of others.

    Nobody waits for anybody: whoever has written nothing yet is left out.
    """

    def __init__(self, folder: Path, number: int, workers: int) -> None:
        """Joins as process `number` of `workers`."""
        self._folder, self._number = folder, number
        self._others = [other for other in range(workers) if other != number]
        self._offered_s = np.inf

    def offer(self, plan: Plan, seconds: float) -> None:
        """Shows `plan[A]`, of so many judged seconds, to the others, if it is better than what they have seen."""
        if not seconds < self._offered_s:
            return
        content = io.BytesIO()
        np.savez(content, plan=plan, seconds=seconds)
        unfinished = self._folder / f"unfinished-{self._number}"
        unfinished.write_bytes(content.getvalue())
        os.replace(unfinished, self._file(self._number))
        self._offered_s = seconds

    def plans(self) -> list[Plan]:
        """Returns the best plan of each other process, the best first."""
        found: list[tuple[float, int, Plan]] = []
        for other in self._others:
            with contextlib.suppress(FileNotFoundError), np.load(self._file(other)) as shown:
                found.append((float(shown["seconds"]), other, shown["plan"]))
        return [plan for _, _, plan in sorted(found, key=lambda entry: entry[:2])]

    def _file(self, number: int) -> Path:
        return self._folder / f"plan-{number}.npz"
