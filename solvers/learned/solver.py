"""The solvers with a trained network: `policy` climbs by its scores alone, `guided` anneals over what it proposes.

The network scores changes of a plan, and the real game judges those that are tried. There is no tree search here: the
search over the learned model (`actors/search`) plays to learn.
"""

from collections.abc import Callable

import numpy as np

from ...env.residency.position import Position
from ..anneal import first_temperature, scale_of
from ..common.task import Task
from ..starts.plans import portfolio_starts
from .config import GuidedConfig, ProposalConfig
from .guided_walk import GuidedWalk
from .proposals import Proposals
from .score import Score
from .starts import find_starts, followed_starts, ordered_starts

# Share of what is left of the budget after which the walk begins again, from its best and colder.
_RESTART = 0.65
# The policy alone: the games that it plays where its budget allows more, starts left out, its share for starts, and its
# proposals. So few games afford fresher scores.
POLICY_GAMES = 200
_START_SHARE = 0.5
POLICY = ProposalConfig(games_per_score=64)


def make_guided(score: Score | None, config: GuidedConfig | None = None) -> Callable[[Task], None]:
    """Returns the solver `guided`; None for `score` to do without the network, None for the default settings."""
    return lambda task: guided(task, score, config)


def make_policy(score: Score) -> Callable[[Task], None]:
    """Returns the solver `policy`."""
    return lambda task: policy(task, score)


def policy(task: Task, score: Score) -> None:
    """Climbs from the best of the portfolio and of production by the scores alone; ends by itself."""
    task.doing = "starts"
    starts = followed_starts(task, 0.5 * _START_SHARE)
    starts += portfolio_starts(task, _START_SHARE, 1, further=False)
    if not starts or task.done:
        return
    start = min(starts, key=lambda start: start.seconds)
    task.use(start.plan_tables)
    if not len(task.free):
        return
    task.doing = "changes that the policy proposes"
    Proposals(task, Position(task.plan_game, start.plan), score, POLICY).play(POLICY_GAMES)


def guided(task: Task, score: Score | None, config: GuidedConfig | None = None) -> None:
    """Anneals from the best start; the network proposes a share of the changes.

    Args:
      task: the task.
      score: scores changes; None to do without.
      config: None for the defaults.
    """
    config = GuidedConfig() if config is None else config
    walk = _best_walk(task, score, config)
    if walk is None:
        return
    begun, hot = task.spent, first_temperature(task, config.hot, config.cold, config.games_per_access)
    for end in (begun + _RESTART * (1.0 - begun), 1.0):
        _cool(task, walk, end, hot, config)
        hot = max(hot / 5, 2 * config.cold)
        if task.done:
            return
        task.use(walk.plan_tables)
        walk = GuidedWalk(task, walk.best_plan, score, config)


def _best_walk(task: Task, score: Score | None, config: GuidedConfig) -> GuidedWalk | None:
    """Climbs from the best starts; returns the best walk, None if there is nothing to decide or no time left.

    There are at most `config.walks`, and fewer where the budget leaves each less than `config.games_per_walk` games.
    """
    starts = find_starts(task, config)
    if task.done or not len(task.free):
        return None
    starts += ordered_starts(task, config)
    walks = []
    most = int(np.clip(task.games_left / config.games_per_walk, 1, config.walks))
    for start in sorted(starts, key=lambda start: start.seconds)[:most]:
        if task.done:
            return None
        task.use(start.plan_tables)
        walks.append(GuidedWalk(task, start.plan, score, config))
    share = config.climb_share / len(walks)
    for walk in walks:
        task.doing = f"{len(walks)} climbs"
        end = task.spent + share
        while not task.done and task.spent < end:
            walk.step(task.games_per_look(), 0.0)
    return None if task.done else min(walks, key=lambda walk: walk.best_s)


def _cool(task: Task, walk: GuidedWalk, end: float, hot: float, config: GuidedConfig) -> None:
    """Anneals until `end` of the budget is spent, the temperature falling geometrically from `hot`."""
    scale, begun = scale_of(walk.walk), task.spent
    while not task.done and task.spent < end:
        passed = min(1.0, (task.spent - begun) / max(end - begun, 1e-9))
        temperature = scale * hot * (config.cold / hot) ** passed
        task.doing = f"temperature {temperature * 1e6:.3g} us"
        walk.step(task.games_per_look(), temperature)
