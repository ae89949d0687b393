"""The solver `muzero`: what XLA's algorithm makes of a program, then the agent's policy says where to change it, and
every change is tried in the real game.

The search over the learned model (`search.py`) plays to learn. Here a line of play is known from the start that no
whole game of searched moves comes near on long programs, and the real game is as fast as the network: so the policy
aims, and the game decides (docs/decisions/0008).
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..env.layout import R_PATIENCE, R_SLACK
from ..env.mapping import Mapping
from ..env.objective import ROBUST
from .guided import Guide, GuidedWalk, Wish
from .slack import PATIENCE, SLACKS
from .solvers.anneal import SEARCH
from .solvers.follow import hints_of_mapping, plan_of_mapping, without_times
from .solvers.greedy_players import random_knapsacks
from .solvers.order import order_search
from .solvers.starts import best_starts
from .solvers.task import Clocked, Plan, Task
from .solvers.walk import Walk

# Of the ways to follow mappings, and of the knapsacks, those that are walked from.
_FOLLOWED = 3
_KNAPSACKS = 2

# What looks at a walk's current plan now and then, and makes the guide better. Returns changes that help, best last.
Tutor = Callable[[Task, Plan, Guide], list[Wish]]


@dataclass(frozen=True)
class MuZeroConfig:
    """How the solver spends its budget.

    Attributes:
      order_share: for the search over XLA's orders that the line of play begins from.
      start_share: for following the best mappings in the game, and as much for greedy lines besides.
      knapsack_share: for filling fast memory by benefits, as `greedy` does.
      climb_share: for short climbs from several starts.
      ask_share: most that the policy itself may take, of what is spent so far.
      aim_share: least between two questions to it along a walk.
      correct_share: most that is spent, after each, on what the policy would have otherwise, move by move.
      teach_share: between two lessons, which take at most a tenth of that between them.
      hot, cold: first and last temperature, in units of the median difference that a single change makes; the first is
        lower where there are fewer games per access than `games_per_access`.
    """

    order_share: float = 0.25
    start_share: float = 0.06
    knapsack_share: float = 0.06
    climb_share: float = 0.08
    ask_share: float = 0.1
    aim_share: float = 0.02
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
    asking = Asking(task, config)
    walk = _best_walk(task, guide, config, asking)
    if walk is None:
        return
    search = _Walking(task, guide, tutor, config, asking)
    begun, hot = task.spent, search.hot()
    for end in (begun + 0.65 * (1.0 - begun), 1.0):
        walk = search.cool(walk, end, hot)
        hot = max(hot / 5, 2 * config.cold)
        if task.done:
            return
        walk = make_walk(task, walk.best_plan, guide)


class Asking:
    """Keeps the policy to its share of the time: on a long program it takes as long as hundreds of changed games."""

    def __init__(self, task: Task, config: MuZeroConfig) -> None:
        self._task, self._config = task, config
        self._asked_s, self._last_s = 0.0, 0.0

    def aim(self, walk: GuidedWalk) -> bool:
        """Asks the policy about a walk's current plan, unless it has had its share; returns whether it did."""
        task = self._task
        limited = task.budget.seconds is not None
        if limited and self._asked_s + self._last_s > self._config.ask_share * task.seconds:
            return False
        before = task.seconds
        walk.aim()
        self._last_s = task.seconds - before
        self._asked_s += self._last_s
        return True


class _Walking:
    def __init__(
        self, task: Task, guide: Guide | None, tutor: Tutor | None, config: MuZeroConfig, asking: Asking
    ) -> None:
        self._task, self._guide, self._tutor, self._config, self._asking = task, guide, tutor, config, asking
        self._aim_at, self._teach_at = 0.0, task.spent + config.teach_share

    def hot(self) -> float:
        """Returns the first temperature: lower the fewer games per access the rest of the budget allows."""
        task, config = self._task, self._config
        games = task.evaluations * (1.0 - task.spent) / max(task.spent, 1e-9)
        least = 2 * config.cold
        return float(np.clip(config.hot * games / (config.games_per_access * len(task.free)), least, config.hot))

    def cool(self, walk: Walk, end: float, hot: float) -> Walk:
        """Walks on until a share of the budget is spent, ever colder."""
        task, config = self._task, self._config
        differences = walk.differences()
        scale = float(np.median(differences)) if len(differences) else 1e-4 * walk.current_s
        begun = task.spent
        self._aim_at = 0.0
        while not task.done and task.spent < end:
            found: list[Wish] = []
            if self._guide is not None and self._tutor is not None and task.spent >= self._teach_at:
                task.doing = "lesson"
                before = task.spent
                found = self._tutor(task, walk.plan, self._guide)
                self._teach_at = task.spent + max(config.teach_share, 10.0 * (task.spent - before))
                self._aim_at = 0.0
            if isinstance(walk, GuidedWalk):
                asked = task.spent >= self._aim_at and self._asking.aim(walk)
                if asked:
                    self._aim_at = task.spent + config.aim_share
                walk.suggest(found)
                if asked or found:
                    correct(task, walk, config.correct_share)
            passed = min(1.0, (task.spent - begun) / max(end - begun, 1e-9))
            temperature = scale * hot * (config.cold / hot) ** passed
            task.doing = f"temperature {temperature * 1e6:.3g} us"
            walk.step(task.games_per_look(), temperature)
        return walk


def make_walk(task: Task, plan: Plan, guide: Guide | None) -> Walk:
    """Returns a walk from `plan`, by the clock that `task` has now."""
    return Walk(task, plan, SEARCH) if guide is None else GuidedWalk(task, plan, SEARCH, guide)


def correct(task: Task, walk: GuidedWalk, share: float) -> None:
    """Tries what the policy would have otherwise until a share of the budget is spent, or nothing is left."""
    task.doing = "what the policy would have otherwise"
    end = task.spent + share
    while not task.done and task.spent < end and walk.correct(task.games_per_look()):
        pass


def _best_walk(task: Task, guide: Guide | None, config: MuZeroConfig, asking: Asking) -> Walk | None:
    """Returns a walk from the best start; None if there is nothing to do, or no time left."""
    production = task.game.program.production
    if production is not None:
        task.offer_mapping(production)
    mapping = _by_order(task, config.order_share)
    starts = _following(
        task, [m for m in (mapping, production) if m is not None], min(1.0, task.spent + config.start_share)
    )
    starts += best_starts(task, min(1.0, task.spent + config.start_share))
    starts += random_knapsacks(task, min(1.0, task.spent + config.knapsack_share), _KNAPSACKS)
    if task.done or not len(task.free):
        return None
    walks = []
    for clocked, plan in starts:
        if task.done:
            return None
        task.take(clocked)
        walks.append(make_walk(task, plan, guide))
    walks = sorted(walks, key=lambda walk: walk.best_s)[:4]
    share = config.climb_share / len(walks)
    for walk in walks:
        task.doing = f"{len(walks)} climbs"
        end = task.spent + share
        if isinstance(walk, GuidedWalk) and asking.aim(walk):
            correct(task, walk, share)
        while not task.done and task.spent < end:
            walk.step(task.games_per_look(), 0.0)
    return None if task.done else min(walks, key=lambda walk: walk.best_s)


def _by_order(task: Task, share: float) -> Mapping | None:
    """Searches XLA's orders for a share of the budget; offers the best mapping and returns it."""
    task.doing = "orders"
    part = _part(task, share)
    order_search(part)
    task.evaluations += part.evaluations
    mapping = part.mapping()
    if mapping is not None:
        task.offer_mapping(mapping)
    return mapping


def _part(task: Task, share: float) -> Task:
    """Returns a task on the same program with a share of the budget, and chance of its own."""
    budget = task.budget
    seconds = None if budget.seconds is None else share * budget.seconds
    evaluations = None if budget.evaluations is None else int(share * budget.evaluations)
    judge = task.game.judge
    return Task(
        judge.program,
        judge.target,
        judge.objective,
        replace(budget, seconds=seconds, evaluations=evaluations),
        int(task.generator.integers(2**31)),
        stop=lambda: task.done,
    )


def _following(task: Task, mappings: list[Mapping], until: float) -> list[tuple[Clocked, Plan]]:
    """Returns plans that follow mappings, by several clocks and slacks until a share of the budget is spent, those that
    lose least first."""
    followed = [
        (plan_of_mapping(task.game.program, mapping), hints_of_mapping(task.game.program, mapping))
        for mapping in mappings
    ]
    # With the mapping's own times slack matters to few copies.
    ways = [(plan, hints, SLACKS[0], True) for plan, hints in followed]
    ways += [(plan, without_times(hints), slack, False) for slack in SLACKS for plan, hints in followed]
    found: list[tuple[float, int, bool, Clocked, Plan]] = []
    task.doing = "following"
    for (plan, hints, slack, timed), msa_share in itertools.product(ways, task.clocks):
        if found and (task.done or task.spent >= until):
            break
        task.take(_with_slack(task, task.following_clock(msa_share, hints), slack))
        found.append((task.play(plan), len(found), timed, task.clocked, plan))
    found.sort(key=lambda entry: entry[:2])
    # Closest first; but what keeps to the mapping's times is closer than it is easy to better.
    other = next((k for k, entry in enumerate(found) if entry[2] != found[0][2]), None)
    if other is not None:
        found.insert(1, found.pop(other))
    return [(clocked, plan) for *_, clocked, plan in found[:_FOLLOWED]]


def _with_slack(task: Task, clocked: Clocked, slack: float) -> Clocked:
    """Returns the same with another slack, and under `robust` with the patience that the agent plays with."""
    rates = clocked.tables.rates.copy()
    rates[R_SLACK] = slack
    if task.game.judge.objective == ROBUST:
        rates[R_PATIENCE] = PATIENCE
    return clocked._replace(tables=clocked.tables._replace(rates=rates))
