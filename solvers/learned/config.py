"""Settings of the solver `guided`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GuidedConfig:
    """Shares of the budget by purpose, and the temperatures. Every `_share` and `_gap` is a share of the budget.

    Attributes:
      start_share: for following the best mappings in the game, and as much again for greedy lines.
      portfolio_share: for stays chosen by knapsacks and prices.
      order_min_share, order_max_share: for the search over XLA's buffer orders; `OrderStop` decides between them.
      climb_share: for short climbs from several starts.
      policy_max_share: at most this share of the time spent so far may go to querying the policy.
      query_min_gap: least time between two queries of the policy.
      query_max_gap: most time between two queries, where queries gain less than the walk does.
      proposal_share: at most for trying, after each query, the moves that the policy proposes, one by one.
      training_min_gap: least time between two trainings of the policy on the program at hand.
      hot, cold: first and last temperature, in units of the median difference that a single change makes; the first is
        lower where there are fewer games per access than `games_per_access`.
    """

    start_share: float = 0.06
    portfolio_share: float = 0.06
    order_min_share: float = 0.1
    order_max_share: float = 0.5
    climb_share: float = 0.08
    policy_max_share: float = 0.1
    query_min_gap: float = 0.02
    query_max_gap: float = 0.3
    proposal_share: float = 0.02
    training_min_gap: float = 0.08
    hot: float = 0.3
    cold: float = 0.01
    games_per_access: float = 30.0
