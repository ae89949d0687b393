"""The solvers with a trained network: `policy` climbs by its scores alone, `guided` anneals with its proposals.

The network scores changes of a plan, and the real game judges those that are tried. There is no tree search here: the
search over the learned model (`actors/search`) plays to learn.
"""

from collections.abc import Callable
from dataclasses import replace

from ...env.residency.position import Position
from ..anneal import first_temperature
from ..common.heats import in_heats
from ..common.race import Cooling, race
from ..common.task import Task
from ..starts.plans import portfolio_starts
from .config import GuidedConfig, ProposalConfig
from .guided_walk import GuidedWalk
from .proposals import Proposals
from .score import Score
from .starts import find_starts, followed_starts, ordered_starts

# The policy alone: the most games that it plays, starts left out; its share for starts; and its proposals. With so few
# games, fresher scores are affordable.
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
    """Anneals from the best starts, in heats of a race; the network proposes a share of the changes.

    Args:
      task: the task.
      score: scores changes; None to do without.
      config: None for the defaults.
    """
    whole = GuidedConfig() if config is None else config
    part = replace(whole, order_max_share=whole.order_heat_share)
    in_heats(
        task,
        lambda heat: _guided(heat, score, whole if heat is task else part),
        lambda plan: GuidedWalk(task, plan, score, whole),
        whole.cold,
    )


def _guided(task: Task, score: Score | None, config: GuidedConfig) -> None:
    starts = find_starts(task, config)
    if task.done or not len(task.free):
        return
    starts += ordered_starts(task, config)
    starts.sort(key=lambda start: start.seconds)
    hot = first_temperature(task, config.hot, config.cold, config.games_per_access)
    race(
        task,
        [(start.plan, start.plan_tables) for start in starts],
        lambda plan: GuidedWalk(task, plan, score, config),
        Cooling(hot, config.cold, config.walks, config.games_per_walk),
    )
