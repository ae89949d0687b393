"""Training for so many seconds of processor time, and what it came to: what ablations and the agent's targets measure.

Wall minutes on a machine that does other work too are not comparable; nor are updates, where one setting makes each of
them dearer. So what counts is the time that all threads of the process have run. The first turns of each kind, which
compile, are left out.
"""

import hashlib
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from mallocmuzero.actors.evaluate.evaluate import Evaluation, evaluate_network
from mallocmuzero.actors.self_play.actor import PlayReport
from mallocmuzero.actors.self_play.played_program import PlayedProgram
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import Mapping as MemoryMapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.cache import cache_folder
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.config.config import Overrides, TrainConfig
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.stop import StopRequest
from mallocmuzero.launch.train.learning import evaluation_search
from mallocmuzero.launch.train.process import train_in_process
from mallocmuzero.launch.train.progress import Progress, View
from mallocmuzero.launch.train.session import Session

from .source_hash import IDLE, ROOT, source_hash

# Simulations per move of the evaluation with search, in all settings alike.
SIMULATIONS = 8
# Turns of each kind whose time does not count.
_UNTIMED_TURNS = 2
_NEVER_MINUTES = 1e6
_COMPILED: set[str] = set()  # configurations, by their digests
# Moves of each game until all that playing needs has been compiled: branches have ended.
_GAMES_MOVES = 60
# How files are read, and how a run is spread, shown and kept, changes nothing about what it learns: whose turn it is
# depends on the replay alone. Settings are hashed by themselves (`config_digest`).
_KEPT = (
    *(f"replay.{name}" for name in ("checkpoint", "store")),
    *(f"learner.{name}" for name in ("checkpoint", "policy_file")),
)
_LEARNING = frozenset(("launch.learning", "launch.muzero", "launch.seeds"))
_AROUND = frozenset(f"launch.{path.stem}" for path in (ROOT / "launch").glob("*.py")) - _LEARNING
AGENT_IDLE = IDLE | _AROUND | frozenset(_KEPT)


@dataclass(frozen=True)
class Trained:
    """What a training came to. Ratios are to XLA's own mapping, as the judge counts.

    Attributes:
      spent_s, wall_s: what it took: processor time that counts, and wall time with everything.
      updates, moves, games: what was done in it; games are whole ones and branches.
      first: the line of play that it began with.
      best: the best mapping of training, verified; where no game of it came to its end, the better of the two below.
      policy, search: one game of the policy alone, and one with search, by the last parameters.
      mapping: the best mapping.
    """

    spent_s: float
    wall_s: float
    updates: int
    moves: int
    games: int
    first: float
    best: float
    policy: float
    search: float
    mapping: MemoryMapping

    def as_json(self) -> dict[str, Any]:
        """Returns the figures that a record keeps."""
        figures = {name: round(getattr(self, name), 8) for name in ("first", "best", "policy", "search")}
        seconds = {name: round(getattr(self, name), 2) for name in ("spent_s", "wall_s")}
        return {**figures, **seconds, "updates": self.updates, "moves": self.moves, "games": self.games}


def agent_code() -> str:
    """Returns the hash of all code that a training depends on."""
    return source_hash("launch.learning", "actors.self_play", "actors.evaluate", "replay.local", idle=AGENT_IDLE)


def configure(settings: Mapping[str, Any], program: str, seed: int) -> TrainConfig:
    """Returns the configuration of a training run of one program.

    Args:
      settings: dotted names and values, over the defaults.
      program: its name.
      seed: of everything.

    Raises:
      UserError: a setting is unknown, or its value cannot be used.
    """
    overrides = Overrides()
    for name, value in settings.items():
        nested: Any = value
        for part in reversed(name.split(".")):
            nested = {part: nested}
        overrides.add(nested, name)
    schedule = {"evaluate_period": 0, "checkpoint_minutes": _NEVER_MINUTES, "report_seconds": 60.0}
    overrides.add({"workloads": [program], "seed": seed, "schedule": schedule}, "benchmark")
    return overrides.resolve()


def config_digest(config: TrainConfig) -> str:
    """Returns a hash (12 hex digits) of a configuration but for its program, its seed and the topology's settings."""
    left_out = ("workloads", "seed", "topology", "ray")
    values = {name: value for name, value in config.to_json().items() if name not in left_out}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:12]


def train_timed(config: TrainConfig, seconds: float) -> Trained:
    """Trains the one program of `config` for so many seconds of processor time, on one core, and measures the agent.

    Raises:
      UserError: the program has no production mapping to be measured against.
    """
    keep_compiled_networks()
    (name,) = config.workloads
    # Its own: what an earlier run in this process has searched for it is not for nothing.
    program = replace(load(name))
    production_s = config.actor.judge(program).production_s
    if not production_s:
        raise UserError(f"{name}: has no production mapping to be measured against; choose another program")
    _compile(config)
    begin, begun = time.perf_counter(), time.process_time()
    followed = config.actor.followed(program)  # which may be searched for
    searched_s = time.process_time() - begun if config.actor.orders else 0.0
    first_s, _ = PlayedProgram(config.actor.game(program), followed).best
    session, params = _train(config, program, max(0.0, seconds - searched_s))
    wall_s = time.perf_counter() - begin
    search = evaluation_search(config, SIMULATIONS)
    (policy,) = evaluate_network(session.network, params, [program], config.actor, None, config.seed)
    (searched,) = evaluate_network(session.network, params, [program], config.actor, search, config.seed)
    best_s, mapping = _best(session, (policy, searched))
    counters = session.counters
    return Trained(
        searched_s + session.spent_s,
        wall_s,
        counters.step,
        counters.moves,
        counters.episodes,
        first_s / production_s,
        best_s / production_s,
        _ratio(policy),
        _ratio(searched),
        mapping,
    )


def _best(session: "TimedSession", measured: Sequence[Evaluation]) -> tuple[float, MemoryMapping]:
    """Returns seconds and mapping of the best game of training; of those that measure it, if none came to its end."""
    (program,) = session.config.workloads
    if program in session.best:
        best = session.best[program]
        return best.latency_s, best.mapping
    game = min(measured, key=lambda evaluation: evaluation.latency_us)
    return game.latency_us * 1e-6, game.mapping


def _ratio(evaluation: Evaluation) -> float:
    if not evaluation.verified or evaluation.production_us is None:
        raise RuntimeError(f"{evaluation.solver} made a mapping of {evaluation.program!r} that does not verify")
    return evaluation.latency_us / evaluation.production_us


def keep_compiled_networks() -> None:
    """Has XLA keep what it compiles from one process to the next: most settings leave most of it as it is."""
    folder = cache_folder() / "xla"
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _compile(config: TrainConfig) -> None:
    """Has all that playing needs compiled, by games on the smallest program."""
    # The learner never has enough.
    tiny = replace(config, workloads=("tiny",), seed=0, replay=replace(config.replay, min_size=config.replay.capacity))
    digest = config_digest(tiny)
    if digest not in _COMPILED:
        _train(tiny, load("tiny"), 0.0, moves=_GAMES_MOVES * tiny.actor.games)
        _COMPILED.add(digest)


def _train(config: TrainConfig, program: Program, seconds: float, moves: int = 0) -> tuple["TimedSession", Any]:
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        run = RunDirectory(folder)
        session = TimedSession(run, config, [program], None, StopRequest(), _Silent())
        session.budget_s, session.least_moves = seconds, moves
        try:
            return session, train_in_process(session)
        finally:
            session.close()


class TimedSession(Session):
    """A session that is finished after so many seconds of processor time.

    Attributes:
      budget_s: how many.
      least_moves: it goes on until so many moves have been made, whatever the time.
      spent_s: how many are spent.
    """

    budget_s = 0.0
    least_moves = 0
    spent_s = 0.0

    def start(self) -> None:
        """See `Session.start`."""
        super().start()
        self._marked_s, self._turns = time.process_time(), {"play": 0, "learn": 0}

    @property
    def finished(self) -> bool:
        """Whether the time is spent."""
        return (self.spent_s >= self.budget_s and self.counters.moves >= self.least_moves) or super().finished

    def played(self, report: PlayReport) -> None:
        """See `Session.played`."""
        super().played(report)
        self._mark("play")

    def learned(self, updates: int, metrics: Mapping[str, Any]) -> None:
        """See `Session.learned`."""
        super().learned(updates, metrics)
        self._mark("learn")

    def _mark(self, kind: str) -> None:
        now = time.process_time()
        if self._turns[kind] >= _UNTIMED_TURNS:
            self.spent_s += now - self._marked_s
        self._marked_s = now
        self._turns[kind] += 1


class _Silent(Progress):
    """Shows nothing."""

    def show(self, view: View, force: bool = False) -> None:
        """See `Progress.show`."""

    def say(self, text: str) -> None:
        """See `Progress.say`."""
