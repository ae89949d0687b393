"""Games of EGRL: the player, which rewards homes, and the replay buffer that evolution and gradient share."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..common.task import Task
from .tensors import Homes, make_tensors


@dataclass(frozen=True)
class RewardConfig:
    """The reward of a game.

    Attributes:
      scale: factor of the squared speed-up over the compiler.
      refusal: factor of the penalty, the share of bytes that the plan prefers fast and the game refused.
      strict: the reward of a game with a refusal is minus that share, without a speed-up, as on the paper's chip, which
        does not run an invalid mapping.
    """

    scale: float = 5.0
    refusal: float = 1.0
    strict: bool = False


class Player:
    """Plays homes and rewards them.

    Attributes:
      task: the task whose budget the games spend.
      tensors: its program's tensors.
    """

    def __init__(self, task: Task, config: RewardConfig) -> None:
        """Prepares the program of a task."""
        self.task, self.tensors, self._config = task, make_tensors(task), config
        judge = task.game.judge
        # XLA's own mapping stands for the paper's compiler; without one, everything in HBM does.
        self._compiler_s = judge.seconds(judge.baseline)

    def play(self, homes: Homes) -> float:
        """Plays a game in which tensors `[K]` have these homes; returns its reward."""
        seconds = self.task.play(self.tensors.plan(homes))
        refused = self.tensors.denied(homes, self.task.state.access_fast)
        if self._config.strict and refused > 0.0:
            return -refused
        speed_up = self._compiler_s / seconds if seconds > 0 else 1.0
        return self._config.scale * speed_up**2 - self._config.refusal * refused


class ReplayBuffer:
    """The latest mappings played, with their rewards. Shape: `K` tensors."""

    def __init__(self, capacity: int, tensors: int) -> None:
        """Begins empty, with space for `capacity` mappings."""
        self._homes = np.zeros((capacity, tensors), np.int32)
        self._reward = np.zeros(capacity, np.float32)
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, len(self._reward))

    def add(self, homes: Homes, reward: float) -> None:
        """Adds homes `[K]` and their reward in place of the oldest."""
        place = self._added % len(self._reward)
        self._homes[place], self._reward[place] = homes, reward
        self._added += 1

    def sample(self, count: int, generator: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Returns homes `[count, K]` and rewards `[count]`, drawn uniformly with replacement."""
        rows = generator.integers(len(self), size=count)
        return self._homes[rows], self._reward[rows]
