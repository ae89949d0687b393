"""mallocGame as a Gymnasium and as a dm_env environment. No other module needs either library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extras import MissingExtra
from ..program.program import Program
from ..program.target import Target
from .game import NUM_MOVES, MallocGame
from .observation import OBSERVATION_SIZE

try:
    import dm_env
    import gymnasium
    from dm_env import specs
except ModuleNotFoundError as error:
    raise MissingExtra(error.name or "gymnasium", "gym") from error


class GymnasiumGame(gymnasium.Env[NDArray[np.float32], np.int64]):
    """A game as a Gymnasium environment.

    Rewards are shares of the program's all-in-HBM latency. `info["action_mask"]` (`[3]` int8) holds the legal moves, as
    Gymnasium's own `Discrete.sample(mask)` takes it. An illegal move is played as the first legal one and reported in
    `info["illegal"]`, since the convention lets any action of the space be tried.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium's own declaration

    def __init__(
        self,
        program: Program,
        target: Target | None = None,
        render_mode: str | None = None,
        objective: str | None = None,
    ) -> None:
        """Begins a game on `program`; see `MallocGame`."""
        self.game = MallocGame(program, target, objective)
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Discrete(NUM_MOVES)
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (OBSERVATION_SIZE,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Goes back to the beginning. The game is deterministic; the seed only seeds `np_random`."""
        super().reset(seed=seed)
        self.game.reset()
        return self.game.observe(), self._info(illegal=False)

    def step(self, action: np.int64) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Makes a move."""
        legal = self.game.legal
        illegal = not legal[action]
        move = int(np.flatnonzero(legal)[0]) if illegal else int(action)
        saved_s, done = self.game.step(move)
        return self.game.observe(), saved_s / self.game.all_hbm_s, done, False, self._info(illegal)

    def render(self) -> str:
        """Returns the decision at hand in words."""
        return self.game.describe()

    def _info(self, illegal: bool) -> dict[str, Any]:
        info: dict[str, Any] = {"action_mask": self.game.legal.astype(np.int8), "illegal": illegal}
        if self.game.done:
            info["latency_s"] = self.game.latency_s
        return info


class DmEnvGame(dm_env.Environment):
    """A game as a dm_env environment. Observations are `{"observation": [D], "legal": [3]}`."""

    def __init__(self, program: Program, target: Target | None = None, objective: str | None = None) -> None:
        """Begins a game on `program`; see `MallocGame`."""
        self.game = MallocGame(program, target, objective)
        self._fresh = True

    def reset(self) -> dm_env.TimeStep:
        """Goes back to the beginning."""
        self.game.reset()
        self._fresh = False
        return dm_env.restart(self._observation())

    def step(self, action: int) -> dm_env.TimeStep:
        """Makes a move; begins anew after the end of a game.

        Raises:
          ValueError: the move is not legal.
        """
        if self._fresh or self.game.done:
            return self.reset()
        saved_s, done = self.game.step(int(action))
        reward = saved_s / self.game.all_hbm_s
        return (dm_env.termination if done else dm_env.transition)(reward, self._observation())

    def observation_spec(self) -> dict[str, specs.Array]:
        """Returns the shapes of an observation."""
        return {
            "observation": specs.Array((OBSERVATION_SIZE,), np.float32, "observation"),
            "legal": specs.Array((NUM_MOVES,), np.bool_, "legal"),
        }

    def action_spec(self) -> specs.DiscreteArray:
        """Returns the moves."""
        return specs.DiscreteArray(NUM_MOVES, name="move")

    def _observation(self) -> dict[str, NDArray[Any]]:
        return {"observation": self.game.observe(), "legal": self.game.legal.copy()}
