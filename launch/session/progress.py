"""The progress display of a training run: a live table in a terminal, otherwise a line every ten seconds."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..terminal.console import stderr_console
from ..terminal.figures import judged_text, percent
from ..terminal.fitted import Fitted
from ..terminal.mode import is_live, say

_LINE_SECONDS = 10.0
_REFRESH_SECONDS = 0.5
# A line names at most this many programs.
_MOST_NAMED = 4


@dataclass
class ProgramView:
    """The displayed state of one program. Latencies are microseconds as the objective counts them, or None.

    Under `robust` these are not measured times, so they are shown as ratios to production.

    Attributes:
      name: the program.
      episodes: finished games.
      recent_us: mean latency of the games of the last report.
      best_us: latency of the best verified mapping.
      production_us: latency of XLA's production mapping.
      flags_us: latency of the best of XLA's flags.
      best_model_us: latency of the best mapping, by cost model.
      objective: the objective that judges mappings.
    """

    name: str
    episodes: int = 0
    recent_us: float | None = None
    best_us: float | None = None
    production_us: float | None = None
    flags_us: float | None = None
    best_model_us: Mapping[str, float | None] = field(default_factory=dict)
    objective: str = ""

    @property
    def ratio(self) -> float | None:
        """Best latency over production latency."""
        return self.of_production(self.best_us)

    @property
    def flags_ratio(self) -> float | None:
        """Latency of the best of XLA's flags over production latency."""
        return self.of_production(self.flags_us)

    def of_production(self, us: float | None) -> float | None:
        """Returns a latency over production latency."""
        return None if us is None or not self.production_us else us / self.production_us


@dataclass
class View:
    """The displayed state of the run. Rates are those of the last report; policy lag is in updates."""

    step: int = 0
    steps_per_s: float = 0.0
    moves: int = 0
    moves_per_s: float = 0.0
    episodes: int = 0
    samples_per_insert: float | None = None
    policy_lag: float | None = None
    seconds: float = 0.0
    left_s: float | None = None
    doing: str = ""
    programs: Sequence[ProgramView] = field(default_factory=list)

    def line(self) -> str:
        """Returns the state as one line."""
        parts = [
            f"{_clock(self.seconds)}",
            f"{self.moves:,} moves ({self.moves_per_s:,.0f}/s)",
            f"{self.episodes:,} episodes",
            f"{self.step:,} updates ({self.steps_per_s:,.1f}/s)",
        ]
        if self.samples_per_insert is not None:
            parts.append(f"{self.samples_per_insert:.1f} samples/insert")
        if self.policy_lag is not None:
            parts.append(f"lag {self.policy_lag:.0f}")
        found = [program for program in self.programs if program.best_us is not None]
        parts += [
            f"{program.name} best {judged_text(program.best_us, program.production_us, program.objective)} "
            f"({program.objective}"
            + ("" if program.flags_ratio is None else f"; XLA's best flags {percent(program.flags_ratio)}")
            + ")"
            for program in found[:_MOST_NAMED]
            if program.best_us is not None
        ]
        if len(found) > _MOST_NAMED:
            ratios = [program.ratio for program in found if program.ratio is not None]
            mean = (
                f", mean {100 * math.exp(math.fsum(map(math.log, ratios)) / len(ratios)):.2f} % of production"
                if ratios
                else ""
            )
            parts.append(f"{len(found)} programs in all{mean}")
        if self.left_s is not None:
            parts.append(f"{_clock(self.left_s)} left")
        if self.doing:
            parts.append(self.doing)
        return " · ".join(parts)


class Progress:
    """Shows a `View` on standard error. A context: the display ends with it."""

    def __init__(self) -> None:
        self._live = Live(console=stderr_console(), auto_refresh=False) if is_live() else None
        self._shown_at = -float("inf")

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, view: View, force: bool = False) -> None:
        """Shows the view if the display is due or `force` is set."""
        now = time.monotonic()
        period = _LINE_SECONDS if self._live is None else _REFRESH_SECONDS
        if now - self._shown_at < period and not force:
            return
        self._shown_at = now
        if self._live is None:
            say(view.line())
        else:
            self._live.update(_render(view), refresh=True)

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        if self._live is None:
            say(text)
        else:
            self._live.console.print(Text(text))


def _render(view: View) -> Group:
    figures = Table.grid(padding=(0, 3))
    figures.add_row(
        f"moves {view.moves:,} ({view.moves_per_s:,.0f}/s)",
        f"episodes {view.episodes:,}",
        f"updates {view.step:,} ({view.steps_per_s:,.1f}/s)",
    )
    figures.add_row(
        f"samples per insert {_number(view.samples_per_insert, '.1f')}",
        f"policy lag {_number(view.policy_lag, '.0f')}",
        f"{_clock(view.seconds)} trained" + ("" if view.left_s is None else f", {_clock(view.left_s)} left"),
    )
    table = Table(title="Latency of games, as a share of production's, by the objective")
    table.add_column("program", no_wrap=True)
    table.add_column("objective", no_wrap=True)
    for heading in ("episodes", "recent", "best", "XLA's best flags"):
        table.add_column(heading, justify="right", no_wrap=True)
    for program in view.programs:
        table.add_row(
            program.name,
            program.objective,
            f"{program.episodes:,}",
            *(percent(program.of_production(us)) for us in (program.recent_us, program.best_us, program.flags_us)),
        )
    return Group(figures, Fitted(table), Text(view.doing))


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else f"{value:{form}}"


def _clock(seconds: float) -> str:
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
