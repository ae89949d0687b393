"""Settings of self-play in the residency game."""

from dataclasses import dataclass

from ...env.errors import UserError

EXACT, MODEL = "exact", "model"


@dataclass(frozen=True)
class ResidencyConfig:
    """Settings of games of rounds (`env/residency/game.py`); the defaults suit training on one program.

    Attributes:
      candidates: `K`, the changes that a round offers.
      moves: most moves of a round.
      rounds: most rounds of a game.
      games: games on a program before a slot goes on to the next one.
      idle_rounds: rounds without a gain after which a game ends.
      rounds_per_score: rounds whose candidates are drawn at once. Describing and scoring all changes of a program takes
        as long as some twenty games.
      uniform: share of the candidates that are drawn with equal chances; the network proposes the others.
      temperature: of the proposals, in logits.
      from_best: chance that a game begins with the best plan known of its program, not with a rule's.
      kick: chance that random changes are made before a game begins, and
      kicks: how many at most.
      root: who tells the rewards of moves at the root of the search: the real game (`exact`), or the learned model
        (`model`).
    """

    candidates: int = 16
    moves: int = 2
    rounds: int = 200
    games: int = 3
    idle_rounds: int = 20
    rounds_per_score: int = 8
    uniform: float = 0.25
    temperature: float = 0.4
    from_best: float = 0.9
    kick: float = 0.3
    kicks: int = 20
    root: str = EXACT

    def __post_init__(self) -> None:
        for name in ("candidates", "moves", "rounds", "games", "idle_rounds", "rounds_per_score", "kicks"):
            if getattr(self, name) < 1:
                raise UserError(f"actor.residency: {name} must be at least 1, not {getattr(self, name)}")
        for name in ("uniform", "from_best", "kick"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UserError(f"actor.residency: {name} must be in [0, 1], not {getattr(self, name)}")
        if not self.temperature > 0.0:
            raise UserError(f"actor.residency: temperature must be above 0, not {self.temperature}")
        if self.root not in (EXACT, MODEL):
            raise UserError(f"actor.residency: root must be {EXACT} or {MODEL}, not {self.root!r}")
