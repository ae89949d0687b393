"""Settings of an actor: the rules of its games, and the mapping that its first lines of play follow."""

from dataclasses import dataclass, field
from functools import lru_cache

from ...env.errors import UserError
from ...env.game.game import DEFAULT_MAX_WINDOW, DEFAULT_MSA_SHARE, DEFAULT_TRIVIAL_SHARE, MallocGame
from ...env.game.holding import HOLD_ALL, per_pass_of
from ...env.physics.objective import ROBUST, Judge, check_objective, make_judge, resolve
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...solvers.common.follow import PATIENCE, SLACKS, follow_best, hints_of_mapping
from ...solvers.order.solver import ordered_mapping
from .annealing import AnnealingConfig
from .branch import BranchConfig
from .programs import ProgramContext
from .residency_config import ResidencyConfig

# The two games: a decision is the placement of a stay, or of a single access (the game of the paper).
RESIDENCY, ACCESS = "residency", "access"
DECISIONS = (RESIDENCY, ACCESS)


@dataclass(frozen=True)
class ActorConfig:
    """Settings of an actor.

    Attributes:
      decisions: the game: `residency` (`env/residency/game.py`) or `access` (`env/game`).
      games: games played at once; one search serves them all.
      threads: threads that play them, at most; 0 for as many as `OMP_NUM_THREADS` (Ray: `ray.actor_threads`) allows, or
        without it as there are cores.
      objective: the objective of all mappings: `robust`, `msa` or `cycles`; None for `robust` on programs that
        `cycles` can price, and `msa` on others.
      max_window: longest copy window in instructions.
      trivial_share: buffers whose benefits sum to less than this share of the latency are no decisions of a player.
      msa_share: weight of the `msa` model in the clock of games under `robust`; the rest is that of `cycles`.
      window_slack, patience: settings of the game (`MallocGame`). None for 1. Under `robust`, None for the slack with
        which production is followed best (`solvers/common/follow.py`), and for a patience that allows long prefetches:
        `msa` waits for them, `cycles` hides them.
      follow: games prefer the offsets of XLA's production mapping and the times of its copies, and begin with the line
        or the plan that follows it if that beats the others to begin with. None: only under `robust`, or with `orders`.
      orders: mappings that XLA's algorithm makes beforehand under other buffer orders (`solvers/order/solver.py`).
        Games follow the best of them if its line is better than production's. 0 for production alone.
      place_trivial: the game places the trivial buffers by its own rule; else they stay in HBM while it is played, and
        fill free memory at the end.
      branch: settings of branches, which the game `access` is played in.
      annealing: settings of the annealing that improves the best lines of the game `access`.
      residency: settings of rounds, which the game `residency` is played in.
    """

    decisions: str = ACCESS
    games: int = 32
    threads: int = 0
    objective: str | None = None
    max_window: int = DEFAULT_MAX_WINDOW
    trivial_share: float = DEFAULT_TRIVIAL_SHARE
    msa_share: float = DEFAULT_MSA_SHARE
    window_slack: float | None = None
    patience: float | None = None
    follow: bool | None = True
    orders: int = 0
    place_trivial: bool = False
    branch: BranchConfig = field(default_factory=BranchConfig)
    annealing: AnnealingConfig = field(default_factory=AnnealingConfig)
    residency: ResidencyConfig = field(default_factory=ResidencyConfig)

    def __post_init__(self) -> None:
        if self.decisions not in DECISIONS:
            raise UserError(f"actor: decisions must be {RESIDENCY} or {ACCESS}, not {self.decisions!r}")
        if self.decisions == RESIDENCY and self.place_trivial:
            raise UserError("actor: place_trivial goes with decisions on accesses; set it to false")
        if self.games < 1:
            raise UserError(f"actor: games must be at least 1, not {self.games}")
        if self.threads < 0:
            raise UserError(f"actor: threads must not be negative, not {self.threads}")
        if self.max_window < 1:
            raise UserError(f"actor: max_window must be at least 1, not {self.max_window}")
        if self.orders < 0:
            raise UserError(f"actor: orders must not be negative, not {self.orders}")
        if self.orders and self.follow is False:
            raise UserError("actor: orders are searched for a mapping to follow; set follow to true, or orders to 0")
        if not 0.0 <= self.trivial_share < 1.0:
            raise UserError(f"actor: trivial_share must be in [0, 1), not {self.trivial_share}")
        if not 0.0 <= self.msa_share <= 1.0:
            raise UserError(f"actor: msa_share must be in [0, 1], not {self.msa_share}")
        if self.place_trivial and (self.annealing.accesses or self.branch.share):
            raise UserError(
                "actor: place_trivial goes with whole games alone; set branch.share and annealing.accesses to 0, or "
                "place_trivial to false"
            )
        for name, least in (("window_slack", 1.0), ("patience", 0.0)):
            value = getattr(self, name)
            if value is not None and not value >= least:
                raise UserError(f"actor: {name} must be at least {least:g}, not {value}")
        if self.objective is not None:
            check_objective(self.objective)

    def game(self, program: Program) -> MallocGame:
        """Returns a new game on `program`."""
        return _game(self, program, self.followed(program))

    def followed(self, program: Program) -> Mapping | None:
        """Returns the mapping whose offsets games prefer and that the first line may follow, or None."""
        follow = self.follow
        if follow is None:
            follow = self.orders > 0 or resolve(program, self.objective) == ROBUST
        if not follow:
            return None
        return _better_followed(self, program) if self.orders else program.production

    def ordered(self, program: Program) -> Mapping | None:
        """Returns the best mapping of XLA's algorithm under other buffer orders; None without `orders`."""
        return ordered_mapping(program, self.objective, self.orders) if self.orders else None

    def judge(self, program: Program) -> Judge:
        """Returns the judge of mappings of `program`."""
        return make_judge(program, self.objective)


def _game(config: ActorConfig, program: Program, followed: Mapping | None) -> MallocGame:
    robust = resolve(program, config.objective) == ROBUST
    slack, patience = (SLACKS[0], PATIENCE) if robust else (1.0, 1.0)
    game = MallocGame(
        program,
        None,
        config.objective,
        max_window=config.max_window,
        trivial_share=config.trivial_share,
        msa_share=config.msa_share,
        place_trivial=config.place_trivial,
        window_slack=slack if config.window_slack is None else config.window_slack,
        patience=patience if config.patience is None else config.patience,
        hints=None if followed is None else hints_of_mapping(program, followed),
        per_pass=HOLD_ALL if followed is None else per_pass_of(program, followed),
    )
    if robust and config.window_slack is None and followed is not None and not config.place_trivial:
        follow_best(game, followed)
    return game


@lru_cache(maxsize=256)
def _better_followed(config: ActorConfig, program: Program) -> Mapping | None:
    """Returns production or the mapping of other orders, whichever has the better first line of play."""
    known = [mapping for mapping in (program.production, config.ordered(program)) if mapping is not None]
    return min(
        known,
        key=lambda mapping: ProgramContext(_game(config, program, mapping), mapping).best[0],
        default=None,
    )
