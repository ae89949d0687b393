"""Training for a budget of processor time, and its figures, which the ablations and the agent's targets measure.

Wall time is not comparable on a machine that does other work, nor is a number of updates where a setting makes each
update more expensive. So the budget is the processor time of all threads. The first turns of each kind compile and do
not count.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from mallocmuzero.actors.evaluate.evaluate import Evaluation
from mallocmuzero.actors.self_play.config import ACCESS, RESIDENCY
from mallocmuzero.actors.self_play.loop import PlayReport
from mallocmuzero.actors.self_play.programs import ProgramContext
from mallocmuzero.actors.self_play.residency_programs import ResidencyProgram
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import Mapping as MemoryMapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.cache import cache_folder
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.session.builders import evaluate_agent, evaluation_search
from mallocmuzero.launch.session.progress import Progress, View
from mallocmuzero.launch.session.session import Session
from mallocmuzero.launch.terminal.stop import StopRequest
from mallocmuzero.launch.train.experiment import train_in_process

# Simulations per move of the evaluation with search, the same for all settings.
SIMULATIONS = 8
# Turns of each kind that compile, so their time does not count.
_UNTIMED_TURNS = 2
_NEVER_MINUTES = 1e6
# Moves per game of the warm-up: enough for branches to have ended, so that everything playing needs is compiled.
_WARM_UP_MOVES = 60
# The first point of a curve; each of the others comes after twice the time.
_FIRST_POINT_S = 15.0
# Configurations that this process has warmed up, by their representation.
_COMPILED: set[str] = set()


@dataclass(frozen=True)
class Trained:
    """Figures of a training. Ratios are to XLA's production mapping under the judge.

    Attributes:
      spent_s, wall_s: processor time that counts, and wall time with everything.
      updates, moves, games: counters of the run; games are whole games and branches.
      first: the line of play or the plan that the training began with.
      best: the best verified mapping of the training; without a finished game, the better of `policy` and `search`.
      policy, search: one game of the final policy alone, and one with search.
      mapping: the mapping of `best`.
      curve: seconds spent and the best so far, after 15, 30, 60, ... seconds.
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
    curve: list[tuple[float, float]]

    def as_json(self) -> dict[str, Any]:
        """Returns the figures that a record keeps."""
        figures = {name: round(getattr(self, name), 8) for name in ("first", "best", "policy", "search")}
        seconds = {name: round(getattr(self, name), 2) for name in ("spent_s", "wall_s")}
        curve = [[round(spent_s, 2), round(best, 8)] for spent_s, best in self.curve]
        counts = {"updates": self.updates, "moves": self.moves, "games": self.games}
        return {**figures, **seconds, **counts, "curve": curve}


def configure(settings: Mapping[str, Any], program: str, seed: int) -> TrainConfig:
    """Returns the configuration of a training run of one program.

    Args:
      settings: values by dotted name, over the defaults.
      program: name of the program.
      seed: seed of everything random.

    Raises:
      UserError: a setting is unknown, or its value cannot be used.
    """
    overrides = Overrides()
    # The runs on record are of the game of accesses; a setting may choose the other one.
    overrides.add({"actor": {"decisions": ACCESS}}, "benchmark")
    for name, value in settings.items():
        nested: Any = value
        for part in reversed(name.split(".")):
            nested = {part: nested}
        overrides.add(nested, name)
    schedule = {"evaluate_period": 0, "checkpoint_minutes": _NEVER_MINUTES, "report_seconds": 60.0}
    overrides.add({"workloads": [program], "seed": seed, "schedule": schedule}, "benchmark")
    return overrides.resolve()


def train_timed(config: TrainConfig, seconds: float) -> Trained:
    """Trains on the one program of `config` for `seconds` of processor time on one core, and evaluates the agent.

    Raises:
      UserError: the program has no production mapping to be measured against.
    """
    keep_compiled_networks()
    (name,) = config.workloads
    # A copy: caches of an earlier run in this process are keyed by the program, and would give this run a head start.
    program = replace(load(name))
    production_s = config.actor.judge(program).production_s
    if not production_s:
        raise UserError(f"{name}: has no production mapping to be measured against; choose another program")
    _compile(config)
    begin, begun = time.perf_counter(), time.process_time()
    followed = config.actor.followed(program)  # may search
    searched_s = time.process_time() - begun if config.actor.orders else 0.0
    first_s = _first_s(config, program, followed)
    session, params = _train(config, program, max(0.0, seconds - searched_s))
    wall_s = time.perf_counter() - begin
    search = evaluation_search(config, SIMULATIONS)
    (policy,) = evaluate_agent(config, session.network, params, [program], None)
    (searched,) = evaluate_agent(config, session.network, params, [program], search)
    best_s, mapping = _best(session, (policy, searched))
    counters = session.counters
    return Trained(
        spent_s=searched_s + session.spent_s,
        wall_s=wall_s,
        updates=counters.step,
        moves=counters.moves,
        games=counters.episodes,
        first=first_s / production_s,
        best=best_s / production_s,
        policy=_ratio(policy),
        search=_ratio(searched),
        mapping=mapping,
        curve=[(searched_s + spent_s, best_s / production_s) for spent_s, best_s in session.curve],
    )


def _first_s(config: TrainConfig, program: Program, followed: MemoryMapping | None) -> float:
    """Returns the judged seconds of the plan or line of play that a training begins with."""
    if config.actor.decisions == RESIDENCY:
        return ResidencyProgram(program, config.actor).best[0]
    return ProgramContext(config.actor.game(program), followed).best[0]


def _best(session: "TimedSession", measured: Sequence[Evaluation]) -> tuple[float, MemoryMapping]:
    """Returns seconds and mapping of the best game of the training, or of its evaluation if no game was finished."""
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
    """Turns on JAX's compilation cache on disk: most settings compile mostly the same functions."""
    folder = cache_folder() / "xla"
    folder.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)


def _compile(config: TrainConfig) -> None:
    """Compiles everything that playing needs, by games on the smallest program."""
    # A replay that is never large enough keeps the learner from updating.
    tiny = replace(config, workloads=("tiny",), seed=0, replay=replace(config.replay, min_size=config.replay.capacity))
    if repr(tiny) not in _COMPILED:
        _train(tiny, load("tiny"), 0.0, moves=_WARM_UP_MOVES * tiny.actor.games)
        _COMPILED.add(repr(tiny))


def _train(config: TrainConfig, program: Program, seconds: float, moves: int = 0) -> tuple["TimedSession", Any]:
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        run = RunDirectory(folder)
        session = TimedSession(run, config, [program], resumed=None, stop=StopRequest(), progress=_Silent())
        session.budget_s, session.least_moves = seconds, moves
        try:
            return session, train_in_process(session)
        finally:
            session.close()


class TimedSession(Session):
    """A session that is finished after a budget of processor time.

    Attributes:
      budget_s: the budget in seconds.
      least_moves: moves that are made in any case.
      spent_s: seconds spent so far.
      curve: seconds spent and the judged seconds of the best game so far, at times that double.
    """

    budget_s = 0.0
    least_moves = 0
    spent_s = 0.0

    def start(self) -> None:
        """See `Session.start`."""
        super().start()
        self._marked_s, self._turns = time.process_time(), {"play": 0, "learn": 0}
        self.curve: list[tuple[float, float]] = []
        self._next_point_s = _FIRST_POINT_S

    @property
    def finished(self) -> bool:
        """True once the budget is spent."""
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
        (program,) = self.config.workloads
        if self.spent_s >= self._next_point_s and program in self.best:
            self.curve.append((self.spent_s, self.best[program].latency_s))
            self._next_point_s *= 2.0


class _Silent(Progress):
    """A progress display that shows nothing."""

    def show(self, view: View, force: bool = False) -> None:
        """See `Progress.show`."""

    def say(self, text: str) -> None:
        """See `Progress.say`."""
