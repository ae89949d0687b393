"""The solver `guided`: annealing from the best of many starts, with changes proposed by a trained policy network.

The policy proposes where to change a line of play, and the real game decides: every change is played. There is no tree
search here; the search over the learned model (`actors/search`) plays to learn. On long programs a line known from the
start is better than any whole game of searched moves, and the real game is as fast as the network
(docs/decisions/0008).
"""

from collections.abc import Callable

from ...env.game.plan import Plan
from ...learner.networks.network import Network, Params
from ..anneal import SEARCH, first_temperature, scale_of
from ..common.task import Task
from .adaptation import STEPS, STEPS_SHARE, Adaptation, PolicyTrainer
from .config import GuidedConfig
from .proposer import Proposer
from .queries import PolicyQueries
from .starts import find_starts
from .walk import GuidedWalk, Walk

# Starts that are walked from.
_WALKS = 4
# Share of what is left of the budget after which the walk begins again, from its best and colder.
_RESTART = 0.65


def make_guided(
    network: Network,
    params: Params,
    make_trainer: Callable[[], PolicyTrainer],
    config: GuidedConfig | None = None,
) -> Callable[[Task], None]:
    """Returns the solver with a policy, compiled.

    Args:
      network, params: the policy; every run of the solver begins from these parameters.
      make_trainer: returns what trains a copy of the policy during a run. Where its steps would take too much of a
        budget, the run does without.
      config: None for the defaults.
    """
    Proposer(network, params).compile()
    step_s = make_trainer().compile()

    def run(task: Task) -> None:
        seconds = task.budget.seconds
        affordable = seconds is None or STEPS * step_s <= STEPS_SHARE * seconds
        adaptation = Adaptation(make_trainer()) if affordable else None
        guided(task, Proposer(network, params), adaptation, config)

    return run


def guided(
    task: Task,
    proposer: Proposer | None,
    adaptation: Adaptation | None = None,
    config: GuidedConfig | None = None,
) -> None:
    """Solves `task`.

    Args:
      task: the task.
      proposer: the policy; None to begin changes where most is at stake, as `anneal` does.
      adaptation: trains the policy on this program meanwhile, or None.
      config: None for the defaults.
    """
    config = GuidedConfig() if config is None else config
    queries = None if proposer is None else PolicyQueries(task, proposer, adaptation, config)
    walk = _best_walk(task, proposer, config, queries)
    if walk is None:
        return
    begun, hot = task.spent, first_temperature(task, config.hot, config.cold, config.games_per_access)
    for end in (begun + _RESTART * (1.0 - begun), 1.0):
        _cool(task, walk, end, hot, config, queries)
        hot = max(hot / 5, 2 * config.cold)
        if task.done:
            return
        walk = _walk_from(task, walk.best_plan, proposer)


def _best_walk(
    task: Task, proposer: Proposer | None, config: GuidedConfig, queries: PolicyQueries | None
) -> Walk | None:
    """Climbs from the best starts; returns the best walk, None if there is nothing to decide or no time left."""
    starts = find_starts(task, config)
    if task.done or not len(task.free):
        return None
    walks = []
    for start in sorted(starts, key=lambda start: start.seconds)[:_WALKS]:
        if task.done:
            return None
        task.use(start.plan_tables)
        walks.append(_walk_from(task, start.plan, proposer))
    share = config.climb_share / len(walks)
    for walk in walks:
        task.doing = f"{len(walks)} climbs"
        end = task.spent + share
        if queries is not None:
            queries.query(walk)
        while not task.done and task.spent < end:
            walk.step(task.games_per_look(), 0.0)
    return None if task.done else min(walks, key=lambda walk: walk.best_s)


def _cool(task: Task, walk: Walk, end: float, hot: float, config: GuidedConfig, queries: PolicyQueries | None) -> None:
    """Anneals until `end` of the budget is spent, the temperature falling geometrically from `hot`."""
    scale, begun = scale_of(walk), task.spent
    while not task.done and task.spent < end:
        if queries is not None:
            queries.query(walk)
        passed = min(1.0, (task.spent - begun) / max(end - begun, 1e-9))
        temperature = scale * hot * (config.cold / hot) ** passed
        task.doing = f"temperature {temperature * 1e6:.3g} us"
        walk.step(task.games_per_look(), temperature)


def _walk_from(task: Task, plan: Plan, proposer: Proposer | None) -> Walk:
    """Returns a walk from `plan[A]`, by the clock that `task` has now."""
    return Walk(task, plan, SEARCH) if proposer is None else GuidedWalk(task, plan, SEARCH, proposer)
