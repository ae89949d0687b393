"""Settings of the solver `guided`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class GuidedConfig:
    """Shares of the budget by purpose, and the temperatures.

    Attributes:
      start_share: for following the best mappings in the game, and as much again for greedy lines.
      portfolio_share: at most for the portfolio's rules.
      order_min_share, order_max_share: for the search over XLA's buffer orders; `OrderStop` decides between them.
      policy_share: at most for climbs by the network's scores.
      climb_share: for short climbs from several starts.
      hot, cold: first and last temperature, in units of the median difference that a single change makes; the first is
        lower where there are fewer games per access than `games_per_access`.
    """

    start_share: float = 0.06
    portfolio_share: float = 0.2
    order_min_share: float = 0.1
    order_max_share: float = 0.5
    policy_share: float = 0.8
    climb_share: float = 0.08
    hot: float = 0.3
    cold: float = 0.01
    games_per_access: float = 30.0
