"""The counters of a run: updates, moves, games, seconds and waits since its beginning, resumed parts included."""

from dataclasses import dataclass, field

from ...env.errors import FormatError
from .snapshot import Resumed


@dataclass
class Counters:
    """Counts since the run began. A checkpoint's manifest holds them as `counters`.

    Attributes:
      step: learner updates.
      moves, episodes: of all actors.
      program_episodes: finished games by program.
      seconds: seconds trained.
      blocked_s: seconds that `actors` and `learner` waited for the replay, summed over their processes. Waits for
        something else count as `ROLE_CAUSE`; causes are `turn`, `parameters` and `saving`.
      restarts: dead workers replaced, by role.
    """

    step: int = 0
    moves: int = 0
    episodes: int = 0
    program_episodes: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    blocked_s: dict[str, float] = field(default_factory=lambda: {"actors": 0.0, "learner": 0.0})
    restarts: dict[str, int] = field(default_factory=dict)

    def episode(self, program: str) -> None:
        """Counts a finished game."""
        self.episodes += 1
        self.program_episodes[program] = self.program_episodes.get(program, 0) + 1

    def waited(self, role: str, seconds: float, cause: str) -> None:
        """Adds seconds that a role (`actors`, `learner`) waited; for the replay, they count under the role alone."""
        name = role if cause == "replay" else f"{role}_{cause}"
        self.blocked_s[name] = self.blocked_s.get(name, 0.0) + seconds

    def restarted(self, role: str) -> None:
        """Counts a dead worker (`actor`, `evaluator`) that is being replaced."""
        self.restarts[role] = self.restarts.get(role, 0) + 1


def read_counters(resumed: Resumed) -> tuple[Counters, int]:
    """Returns the counters of a checkpoint, and the size in bytes that the metric file had then.

    Raises:
      FormatError: the manifest has no such counters.
    """
    try:
        return Counters(**resumed.manifest["counters"]), int(resumed.manifest["metrics_offset"])
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{resumed.folder}: field `counters` or `metrics_offset` of its manifest is malformed ({error}); "
            "remove that checkpoint to go on from the one before"
        ) from error
