"""The solver `muzero`: what XLA's algorithm makes of a program, then the agent's policy says where to change it, and
every change is tried in the real game.

The search over the learned model (`search.py`) plays to learn. Here a line of play is known from the start that no
whole game of searched moves comes near on long programs, and the real game is as fast as the network: so the policy
aims, and the game decides (docs/decisions/0008).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...env.game.state import R_PATIENCE, R_SLACK
from ...env.physics.objective import ROBUST
from ...env.program.mapping import Mapping
from ..anneal import SEARCH, first_temperature, scale_of
from ..common.follow import hints_of_mapping, plan_of_mapping, without_times
from ..common.slack import PATIENCE, SLACKS
from ..common.starts import Start, best_starts
from ..common.task import Clocked, Plan, Task
from ..common.walk import Walk
from ..greedy.solver import random_knapsacks
from ..order.solver import order_search
from .guided import Change, Guide, GuidedWalk

# Of the ways to follow a mapping, and of the knapsacks, those that may be walked from; and of all these those that are.
_FOLLOWED = 2
_KNAPSACKS = 2
_WALKED = 4
# Shares of a latency that summing up in another order may change.
_ROUNDING = 1e-9

# What looks at a walk's current plan now and then, and makes the guide better. Returns changes that help, best last.
Tutor = Callable[[Task, Plan, Guide], list[Change]]


@dataclass(frozen=True)
class MuZeroConfig:
    """How the solver spends its budget: `_share`, and what orders get, are shares of it.

    Attributes:
      start_share: for following the best mappings in the game, and as much for greedy lines besides.
      knapsack_share: for filling fast memory by benefits, as `greedy` does.
      order_least, order_most: for the search over XLA's orders; how much depends on how it gets on.
      climb_share: for short climbs from several starts.
      ask_share: most that the policy itself may take, of what is spent so far.
      aim_share: least between two questions to it.
      rest_share: most between two questions, where they help less than walking does.
      correct_share: most that is spent, after each, on what the policy would have otherwise, move by move.
      teach_share: between two lessons, which take at most a tenth of that between them.
      hot, cold: first and last temperature, in units of the median difference that a single change makes; the first is
        lower where there are fewer games per access than `games_per_access`.
    """

    start_share: float = 0.06
    knapsack_share: float = 0.06
    order_least: float = 0.1
    order_most: float = 0.5
    climb_share: float = 0.08
    ask_share: float = 0.1
    aim_share: float = 0.02
    rest_share: float = 0.3
    correct_share: float = 0.02
    teach_share: float = 0.08
    hot: float = 0.3
    cold: float = 0.01
    games_per_access: float = 30.0


def muzero(task: Task, guide: Guide | None, tutor: Tutor | None = None, config: MuZeroConfig | None = None) -> None:
    """Solves `task`.

    Args:
      task: the task.
      guide: where changes begin; None for where most is at stake, as in `anneal`.
      tutor: makes the guide better meanwhile, or None.
      config: None for the defaults.
    """
    config = MuZeroConfig() if config is None else config
    asking = None if guide is None else Asking(task, guide, tutor, config)
    walk = _best_walk(task, guide, config, asking)
    if walk is None:
        return
    begun, hot = task.spent, first_temperature(task, config.hot, config.cold, config.games_per_access)
    for end in (begun + 0.65 * (1.0 - begun), 1.0):
        _cool(task, walk, end, hot, config, asking)
        hot = max(hot / 5, 2 * config.cold)
        if task.done:
            return
        walk = make_walk(task, walk.best_plan, guide)


class Asking:
    """Asks the policy about walks: within its share of the time, as on a long program it takes as long as hundreds of
    changed games, and less often where what it says gains less than walking does in the same time."""

    def __init__(self, task: Task, guide: Guide, tutor: Tutor | None, config: MuZeroConfig) -> None:
        self._task, self._guide, self._tutor, self._config = task, guide, tutor, config
        self._asked_s, self._last_s = 0.0, 0.0
        self._ask_at, self._teach_at, self._rest = 0.0, config.teach_share, config.aim_share
        # The walk asked about last; its best, and what was spent, when the answer had been tried.
        self._walk: Walk | None = None
        self._best_s, self._at = np.inf, 0.0

    def ask(self, walk: Walk) -> bool:
        """Asks about a walk's current plan, if it is time to, and tries the answer; returns whether it did."""
        task, config = self._task, self._config
        if not isinstance(walk, GuidedWalk) or task.spent < self._ask_at or not self._may_ask():
            return False
        walked = (self._best_s - walk.best_s) / max(task.spent - self._at, 1e-9) if walk is self._walk else 0.0
        before_s, begin, begin_s = walk.best_s, task.spent, task.seconds
        found = self._learn(walk)
        walk.aim()
        self._last_s = task.seconds - begin_s
        self._asked_s += self._last_s
        walk.suggest(found)
        correct(task, walk, config.correct_share)
        self._walk, self._best_s, self._at = walk, walk.best_s, task.spent
        gained = (before_s - walk.best_s) / max(task.spent - begin, 1e-9)
        self._rest = config.aim_share if gained > walked else min(2.0 * self._rest, config.rest_share)
        self._ask_at = task.spent + self._rest
        return True

    def _may_ask(self) -> bool:
        if self._task.budget.seconds is None:
            return True
        return self._asked_s + self._last_s <= self._config.ask_share * self._task.seconds

    def _learn(self, walk: Walk) -> list[Change]:
        """Has the guide taught if it is time to; returns changes that help, best last."""
        task = self._task
        if self._tutor is None or task.spent < self._teach_at:
            return []
        task.doing = "lesson"
        begin = task.spent
        found = self._tutor(task, walk.plan, self._guide)
        self._teach_at = task.spent + max(self._config.teach_share, 10.0 * (task.spent - begin))
        return found


def _cool(task: Task, walk: Walk, end: float, hot: float, config: MuZeroConfig, asking: Asking | None) -> None:
    """Walks on until a share of the budget is spent, ever colder."""
    scale, begun = scale_of(walk), task.spent
    while not task.done and task.spent < end:
        if asking is not None:
            asking.ask(walk)
        passed = min(1.0, (task.spent - begun) / max(end - begun, 1e-9))
        temperature = scale * hot * (config.cold / hot) ** passed
        task.doing = f"temperature {temperature * 1e6:.3g} us"
        walk.step(task.games_per_look(), temperature)


def make_walk(task: Task, plan: Plan, guide: Guide | None) -> Walk:
    """Returns a walk from `plan`, by the clock that `task` has now."""
    return Walk(task, plan, SEARCH) if guide is None else GuidedWalk(task, plan, SEARCH, guide)


def correct(task: Task, walk: GuidedWalk, share: float) -> None:
    """Tries what the policy would have otherwise until a share of the budget is spent, or nothing is left."""
    task.doing = "what the policy would have otherwise"
    end = task.spent + share
    while not task.done and task.spent < end and walk.correct(task.games_per_look()):
        pass


def _best_walk(task: Task, guide: Guide | None, config: MuZeroConfig, asking: Asking | None) -> Walk | None:
    """Returns a walk from the best start; None if there is nothing to do, or no time left."""
    production = task.game.program.production
    starts: list[Start] = []
    if production is not None:
        task.offer_mapping(production)
        starts += _following(task, production, min(1.0, task.spent + 0.5 * config.start_share))
    starts += best_starts(task, min(1.0, task.spent + config.start_share))
    starts += random_knapsacks(task, min(1.0, task.spent + config.knapsack_share), _KNAPSACKS)
    mapping = _by_order(task, config)
    if mapping is not None:
        starts += _following(task, mapping, min(1.0, task.spent + 0.5 * config.start_share))
    if task.done or not len(task.free):
        return None
    walks = []
    for start in sorted(starts, key=lambda start: start.seconds)[:_WALKED]:
        if task.done:
            return None
        task.take(start.clocked)
        walks.append(make_walk(task, start.plan, guide))
    share = config.climb_share / len(walks)
    for walk in walks:
        task.doing = f"{len(walks)} climbs"
        end = task.spent + share
        if asking is not None:
            asking.ask(walk)
        while not task.done and task.spent < end:
            walk.step(task.games_per_look(), 0.0)
    return None if task.done else min(walks, key=lambda walk: walk.best_s)


def _by_order(task: Task, config: MuZeroConfig) -> Mapping | None:
    """Searches XLA's orders for as long as they get on well enough; offers the best mapping and returns it."""
    task.doing = "orders"
    promise = Promise(task, config)
    part = task.part(config.order_most, lambda: task.done or promise.lost(part))
    order_search(part)
    task.evaluations += part.evaluations
    mapping = part.mapping()
    if mapping is not None:
        task.offer_mapping(mapping)
    return mapping


class Promise:
    """Whether a search is worth going on with: while what the second half of its time has gained is more than what it
    is behind the best that was known before, or while nothing is better than production."""

    def __init__(self, task: Task, config: MuZeroConfig) -> None:
        self._config, self._to_beat_s = config, task.best_s
        self._production_s = task.game.judge.production_s
        self._bests: list[tuple[float, float]] = []  # share of its time that was spent, its best

    def lost(self, part: Task) -> bool:
        """Returns whether to end it. To be asked often."""
        if not self._bests or part.best_s < self._bests[-1][1]:
            self._bests.append((part.spent, part.best_s))
        if part.spent * self._config.order_most < self._config.order_least:
            return False
        best_s = min(self._to_beat_s, part.best_s)
        if self._production_s is not None and best_s >= (1.0 - _ROUNDING) * self._production_s:
            return False
        before_s = next((s for at, s in reversed(self._bests) if at <= 0.5 * part.spent), self._bests[0][1])
        return not before_s - part.best_s > max(part.best_s - self._to_beat_s, 0.0)


def _following(task: Task, mapping: Mapping, until: float) -> list[Start]:
    """Returns plans that follow a mapping, by several clocks and slacks until a share of the budget is spent, those
    that lose least first."""
    plan, hints = plan_of_mapping(task.game.program, mapping), hints_of_mapping(task.game.program, mapping)
    # With the mapping's own times slack matters to few copies.
    ways = [(hints, SLACKS[0], True), *((without_times(hints), slack, False) for slack in SLACKS)]
    found: list[tuple[Start, bool]] = []
    task.doing = "following"
    for (hinted, slack, timed), msa_share in itertools.product(ways, task.clocks):
        if found and (task.done or task.spent >= until):
            break
        task.take(_with_slack(task, task.following_clock(msa_share, hinted), slack))
        found.append((Start(task.play(plan), task.clocked, plan), timed))
    found.sort(key=lambda entry: entry[0].seconds)
    # Closest first; but what keeps to the mapping's times is closer than it is easy to better.
    other = next((k for k, (_, timed) in enumerate(found) if timed != found[0][1]), None)
    if other is not None:
        found.insert(1, found.pop(other))
    return [start for start, _ in found[:_FOLLOWED]]


def _with_slack(task: Task, clocked: Clocked, slack: float) -> Clocked:
    """Returns the same with another slack, and under `robust` with the patience that the agent plays with."""
    rates = clocked.tables.rates.copy()
    rates[R_SLACK] = slack
    if task.game.judge.objective == ROBUST:
        rates[R_PATIENCE] = PATIENCE
    return clocked._replace(tables=clocked.tables._replace(rates=rates))
