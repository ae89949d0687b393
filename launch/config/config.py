"""The configuration of a training run: the settings of its parts, and the schedule."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...actors.search.search import SearchConfig
from ...actors.self_play.config import RESIDENCY, ActorConfig
from ...actors.self_play.residency_config import EXACT, MODEL
from ...env.errors import UserError
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import GRID, OBSERVATION_SIZE
from ...env.residency.game import CANDIDATE_FEATURES, Sizes
from ...learner.config import LearnerConfig
from ...learner.networks.network import NetworkConfig
from ...replay.config import ReplayConfig
from ...replay.segment import SegmentSpec
from .limits import check_limits
from .ray import RayConfig
from .strict import build, plain

PROCESS = "process"
RAY = "ray"
TOPOLOGIES = (PROCESS, RAY)


@dataclass(frozen=True)
class Schedule:
    """Periods of publishing, saving, evaluating and reporting. Updates are the learner's steps.

    Attributes:
      publish_period: updates between two versions of the parameters that actors play with.
      slice_moves: moves that an actor makes between two looks at new parameters, rounded up to a multiple of its games.
      checkpoint_minutes: minutes between checkpoints; a run always ends with one.
      checkpoints_kept: checkpoints that are kept, the newest ones.
      evaluate_period: updates between evaluations, or 0 for none before the end.
      evaluate_simulations: simulations per move of the evaluation with search, or 0 to evaluate the policy alone.
      evaluate_most: programs that an evaluation plays at most; of more, so many, evenly spaced.
      report_seconds: seconds between two lines of the metric file.
    """

    publish_period: int = 10
    slice_moves: int = 128
    checkpoint_minutes: float = 5.0
    checkpoints_kept: int = 2
    evaluate_period: int = 500
    evaluate_simulations: int = 8
    evaluate_most: int = 64
    report_seconds: float = 5.0

    def __post_init__(self) -> None:
        for name in ("publish_period", "slice_moves", "checkpoints_kept", "evaluate_most"):
            if getattr(self, name) < 1:
                raise UserError(f"schedule.{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("evaluate_period", "evaluate_simulations"):
            if getattr(self, name) < 0:
                raise UserError(f"schedule.{name} is {getattr(self, name)}; it must not be negative")
        for name in ("checkpoint_minutes", "report_seconds"):
            if not getattr(self, name) > 0:
                raise UserError(f"schedule.{name} is {getattr(self, name)}; it must be above 0")


def network_sizes(actor: ActorConfig) -> dict[str, Any]:
    """Returns the fields of `NetworkConfig` that the game of an actor determines."""
    if actor.decisions == RESIDENCY:
        sizes = Sizes(actor.residency.candidates)
        return {
            "observation_size": sizes.observation,
            "num_actions": sizes.actions,
            "grid": None,
            "candidates": sizes.candidates,
            "candidate_size": CANDIDATE_FEATURES,
        }
    return {"observation_size": OBSERVATION_SIZE, "num_actions": NUM_MOVES, "candidates": 0, "candidate_size": 0}


def _network() -> NetworkConfig:
    return NetworkConfig(observation_size=OBSERVATION_SIZE, num_actions=NUM_MOVES, grid=GRID)


def _replay() -> ReplayConfig:
    return ReplayConfig(
        capacity=40_000, min_size=500, samples_per_insert=4.0, error_buffer=2_000.0, insert_timeout_s=1.0
    )


@dataclass(frozen=True)
class TrainConfig:
    """All settings of a training run; with the seed and the code version they determine it.

    Attributes:
      workloads: names of committed workloads, or paths of program files. `NAME@SHARE` has that share of the fast
        memory; a split, or `corpus`, stands for all its programs, with a share for those that fit
        (`workload_groups.py`).
      seed: seed of all randomness.
      topology: `process` (one process, repeats bit for bit) or `ray`.
      actors: self-play actors; the topology `process` has one.
      minutes: training minutes since the run began, resumed parts included, or None for no limit.
      steps: learner updates since the run began, or None for no limit.
      segment_period: moves between the starts of two segments of a game (`SegmentSpec.period`).
      network, learner, replay, search, actor: settings of the parts.
      schedule: periods of publishing, saving, evaluating and reporting.
      ray: resources of the Ray topology.
    """

    workloads: tuple[str, ...]
    seed: int = 0
    topology: str = PROCESS
    actors: int = 1
    minutes: float | None = None
    steps: int | None = None
    segment_period: int = 4
    network: NetworkConfig = field(default_factory=_network)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    replay: ReplayConfig = field(default_factory=_replay)
    search: SearchConfig = field(default_factory=SearchConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    schedule: Schedule = field(default_factory=Schedule)
    ray: RayConfig = field(default_factory=RayConfig)

    def __post_init__(self) -> None:
        if not self.workloads:
            raise UserError("workloads is empty; name at least one (`mallocmuzero workloads` lists them)")
        if len(set(self.workloads)) < len(self.workloads):
            raise UserError(f"workloads is {list(self.workloads)}; name each once")
        if self.topology not in TOPOLOGIES:
            raise UserError(f"topology is {self.topology!r}; it must be one of {', '.join(TOPOLOGIES)}")
        check_limits(self)
        if not 0 <= self.seed < 2**32:
            raise UserError(f"seed is {self.seed}; it must be between 0 and 2**32 - 1")
        if self.actors < 1 or (self.topology == PROCESS and self.actors > 1):
            raise UserError(
                f"actors is {self.actors}; it must be at least 1, and exactly 1 in the topology {PROCESS!r}"
            )
        for name in ("minutes", "steps"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UserError(f"{name} is {value}; it must be above 0")
        for name, needed in network_sizes(self.actor).items():
            if getattr(self.network, name) != needed:
                raise UserError(
                    f"network.{name} is {getattr(self.network, name)}, this version's game has {needed}; leave it out"
                )
        if self.learner.discount != self.search.discount:
            raise UserError(
                f"learner.discount is {self.learner.discount} and search.discount {self.search.discount}; "
                "they must be the same"
            )
        exact = self.actor.decisions == RESIDENCY and self.actor.residency.root == EXACT
        if exact and self.learner.reanalyse_fraction > 0.0:
            raise UserError(
                f"learner.reanalyse_fraction is {self.learner.reanalyse_fraction}, which would put a search by the "
                f"model in the place of the real game's outcomes; set it to 0, or actor.residency.root to {MODEL!r}"
            )
        if self.topology == PROCESS and self.ray.address is not None:
            raise UserError(f"ray.address is {self.ray.address!r}, but the topology is {PROCESS!r}; choose {RAY!r}")
        if self.topology == PROCESS and self.replay.servers > 1:
            raise UserError(f"replay.servers is {self.replay.servers}, but the topology is {PROCESS!r}; choose {RAY!r}")
        self.replay.check_batch(self.learner.batch_size)
        _ = self.segment_spec

    @property
    def segment_spec(self) -> SegmentSpec:
        """The segments that actors write and the learner samples."""
        return SegmentSpec(
            observation_size=self.network.observation_size,
            num_actions=self.network.num_actions,
            unroll_steps=self.learner.unroll_steps,
            td_steps=self.learner.td_steps,
            period=self.segment_period,
        )

    def to_json(self) -> dict[str, Any]:
        """Returns plain values from which `config_from_json` makes an equal configuration."""
        values: dict[str, Any] = plain(self)
        return values


def config_from_json(values: Mapping[str, Any], source: str) -> TrainConfig:
    """Returns the configuration that `TrainConfig.to_json` wrote.

    Raises:
      UserError: the values are not a configuration of this version; the message names `source`.
    """
    return build(TrainConfig, values, lambda name: source)
