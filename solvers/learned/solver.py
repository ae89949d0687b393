"""The solvers with a trained network: `policy` climbs by its scores alone, `guided` anneals from there.

The network scores changes of a plan, and the real game judges those that are tried. There is no tree search here: the
search over the learned model (`actors/search`) plays to learn.
"""

from collections.abc import Callable

from ..anneal import SEARCH, first_temperature, scale_of
from ..common.task import Task
from ..common.walk import Walk
from ..starts.plans import Start, portfolio_starts
from .climb import Climb
from .config import GuidedConfig
from .score import Score
from .starts import find_starts, followed_starts, ordered_starts

# Starts that are climbed from by scores, and walked from.
_CLIMBS, _WALKS = 2, 4
# Share of what is left of the budget after which the walk begins again, from its best and colder.
_RESTART = 0.65
# Games that the solver `policy` plays where its budget allows more, starts left out, and its share for starts.
POLICY_GAMES = 200
_START_SHARE = 0.5


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
    starts += portfolio_starts(task, _START_SHARE, _CLIMBS, further=False)
    climbs = _climbs(task, starts, score, 1)
    task.doing = "changes that the policy proposes"
    games = 0
    while climbs and not task.done and not climbs[0].stuck and games < POLICY_GAMES:
        games += climbs[0].step(POLICY_GAMES - games)


def guided(task: Task, score: Score | None, config: GuidedConfig | None = None) -> None:
    """Anneals from the best start, once changes that the network scores highest have been tried.

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
        walk = Walk(task, walk.best_plan, SEARCH)


def _best_walk(task: Task, score: Score | None, config: GuidedConfig) -> Walk | None:
    """Climbs from the best starts; returns the best walk, None if there is nothing to decide or no time left."""
    starts = find_starts(task, config)
    if task.done or not len(task.free):
        return None
    if score is not None:
        starts = _climbed(task, starts, score, config.policy_share)
    starts += ordered_starts(task, config)
    walks = []
    for start in sorted(starts, key=lambda start: start.seconds)[:_WALKS]:
        if task.done:
            return None
        task.use(start.plan_tables)
        walks.append(Walk(task, start.plan, SEARCH))
    share = config.climb_share / len(walks)
    for walk in walks:
        task.doing = f"{len(walks)} climbs"
        end = task.spent + share
        while not task.done and task.spent < end:
            walk.step(task.games_per_look(), 0.0)
    return None if task.done else min(walks, key=lambda walk: walk.best_s)


def _climbs(task: Task, starts: list[Start], score: Score, most: int) -> list[Climb]:
    """Returns climbs from the best starts; none if there is nothing to decide."""
    climbs = []
    for start in sorted(starts, key=lambda start: start.seconds)[:most]:
        if task.done:
            break
        task.use(start.plan_tables)
        if len(task.free):
            climbs.append(Climb(task, start.plan, score))
    return climbs


def _climbed(task: Task, starts: list[Start], score: Score, share: float) -> list[Start]:
    """Climbs from the best starts by turns, until all are stuck or `share` of the budget is spent; returns what they
    have reached, and the other starts."""
    task.doing = "changes that the policy proposes"
    end = min(1.0, task.spent + share)
    starts.sort(key=lambda start: start.seconds)
    climbs = _climbs(task, starts, score, _CLIMBS)
    while climbs and not task.done and task.spent < end and not all(climb.stuck for climb in climbs):
        for climb in climbs:
            if not climb.stuck and not task.done:
                climb.step(1)
    reached = [Start(climb.position.seconds, climb.plan_tables, climb.position.plan.copy()) for climb in climbs]
    return [*reached, *starts[len(climbs) :]]


def _cool(task: Task, walk: Walk, end: float, hot: float, config: GuidedConfig) -> None:
    """Anneals until `end` of the budget is spent, the temperature falling geometrically from `hot`."""
    scale, begun = scale_of(walk), task.spent
    while not task.done and task.spent < end:
        passed = min(1.0, (task.spent - begun) / max(end - begun, 1e-9))
        temperature = scale * hot * (config.cold / hot) ** passed
        task.doing = f"temperature {temperature * 1e6:.3g} us"
        walk.step(task.games_per_look(), temperature)
