"""Settings of the learned solvers."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProposalConfig:
    """The changes that the network proposes.

    Attributes:
      sharpness: of the distribution that they are drawn from, a factor of the logits.
      cost_weight: of the logarithm of a changed game's cost in a change's logit: a change late in the program is played
        from there on, and so can be tried more often.
      games_per_score: games between two scorings of all changes. Scoring takes as long as some dozens of games.
      batch: changes drawn at once.
    """

    sharpness: float = 4.0
    cost_weight: float = 0.0
    games_per_score: int = 256
    batch: int = 32


@dataclass(frozen=True)
class GuidedConfig:
    """Shares of the budget by purpose, and the temperatures.

    Attributes:
      start_share: for following the best mappings in the game, and as much again for greedy lines.
      portfolio_share: at most for the portfolio's rules.
      order_min_share, order_max_share: for the search over XLA's buffer orders; `OrderStop` decides between them.
      order_heat_share: the larger of them in heats (`solvers/common/heats.py`).
      proposed_share: share of games whose change the network proposes.
      proposals: how they are drawn.
      walks: walks that race, at most.
      games_per_walk: fewer race where the rest of the budget allows fewer games than this for each.
      hot, cold: first and last temperature, in units of the median difference that a single change makes; the first is
        lower where there are fewer games per access than `games_per_access`.
    """

    start_share: float = 0.06
    portfolio_share: float = 0.2
    order_min_share: float = 0.1
    order_max_share: float = 0.5
    order_heat_share: float = 0.2
    proposed_share: float = 0.5
    proposals: ProposalConfig = ProposalConfig(cost_weight=1.0)
    walks: int = 4
    games_per_walk: float = 60.0
    hot: float = 0.1
    cold: float = 0.01
    games_per_access: float = 30.0
