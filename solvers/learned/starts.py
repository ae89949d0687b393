"""The plans that the learned solvers start from: followed mappings, greedy lines, stays and XLA's orders."""

import itertools

from ...env.game.holding import per_pass_of
from ...env.physics.objective import ROBUST
from ...env.program.mapping import Mapping
from ..common.follow import PATIENCE, SLACKS, hints_of_mapping, plan_of_mapping, without_times
from ..common.task import PlanTables, Task
from ..starts.plans import Start, best_starts, portfolio_starts
from ..xla.solver import affords_decoding
from .config import GuidedConfig
from .orders import search_orders

# Most starts by following one mapping, and by choosing stays.
_MAX_FOLLOWED, _MAX_CHOSEN = 2, 2


def find_starts(task: Task, config: GuidedConfig) -> list[Start]:
    """Returns plans to climb and walk from, those of XLA's orders left out; offers the mappings that they follow."""
    starts = followed_starts(task, 0.5 * config.start_share)
    starts += portfolio_starts(task, min(1.0, task.spent + config.portfolio_share), _MAX_CHOSEN, further=False)
    starts += best_starts(task, min(1.0, task.spent + config.start_share), portfolio=False)
    return starts


def ordered_starts(task: Task, config: GuidedConfig) -> list[Start]:
    """Searches XLA's orders, if the budget allows it; offers the best mapping, and follows it."""
    if not affords_decoding(task, config.order_min_share):
        return []
    mapping = search_orders(task, config)
    if mapping is None:
        return []
    return _following(task, mapping, min(1.0, task.spent + 0.5 * config.start_share))


def followed_starts(task: Task, share: float) -> list[Start]:
    """Offers production and follows it until `share` of the budget is spent; returns no start without production."""
    production = task.game.program.production
    if production is None:
        return []
    task.offer_mapping(production)
    return _following(task, production, min(1.0, task.spent + share))


def _following(task: Task, mapping: Mapping, until: float) -> list[Start]:
    """Follows a mapping by several clocks and slacks until `until` of the budget is spent; returns the best plans."""
    plan, hints = plan_of_mapping(task.game.program, mapping), hints_of_mapping(task.game.program, mapping)
    per_pass = per_pass_of(task.game.program, mapping)
    # With the mapping's own times, slack matters to few copies.
    ways = [(hints, SLACKS[0], True), *((without_times(hints), slack, False) for slack in SLACKS)]
    found: list[tuple[Start, bool]] = []
    task.doing = "following a mapping"
    for (hinted, slack, timed), msa_share in itertools.product(ways, task.msa_shares):
        if found and (task.done or task.spent >= until):
            break
        task.use(_with_slack(task, task.tables_following(msa_share, hinted, per_pass), slack))
        found.append((Start(task.play(plan), task.plan_tables, plan), timed))
    found.sort(key=lambda entry: entry[0].seconds)
    # The best start first, then the best of the other kind: a start with the mapping's own times is close to the
    # mapping but hard to improve.
    other = next((k for k, (_, timed) in enumerate(found) if timed != found[0][1]), None)
    if other is not None:
        found.insert(1, found.pop(other))
    return [start for start, _ in found[:_MAX_FOLLOWED]]


def _with_slack(task: Task, plan_tables: PlanTables, slack: float) -> PlanTables:
    """Returns `plan_tables` with another slack, and under `robust` with the patience that the agent plays with."""
    rates = plan_tables.tables.rates.copy()
    rates.slack = slack
    if task.game.judge.objective == ROBUST:
        rates.patience = PATIENCE
    return plan_tables._replace(tables=plan_tables.tables.replace(rates=rates))
