"""Diagnosis of an agent on one program."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.program.program import Program
from ...launch.diagnosis.agent import Agent
from ...solvers.common.line import LineOfPlay
from ...solvers.common.reward_scale import RewardScale
from ..self_play.played_program import BEST, PlayedProgram
from .changes import Changes, Tried, find_changes
from .inference import Heads, log_policy, searched, see
from .model import ModelErrors, compare_model
from .policy import PolicyFigures, describe_policy
from .trace import GREEDY, PRODUCTION, RUN, Trace, following, record_moves, record_policy
from .value import Calibration, calibrate

HORIZON = 10
STARTS = 256


@dataclass(frozen=True, eq=False)
class LineFigures:
    """The agent along one line of play.

    Attributes:
      trace: the line.
      seen: what the network says of its positions.
      model: imagined against real.
      value: predicted against true.
      policy: how sure it is, and of what.
    """

    trace: Trace
    seen: Heads
    model: ModelErrors
    value: Calibration
    policy: PolicyFigures

    def as_json(self) -> dict[str, Any]:
        """The entry of the JSON list."""
        return {
            "line": self.trace.name,
            "latency_us": self.trace.latency_s * 1e6,
            "decisions": len(self.trace),
            "model": asdict(self.model),
            "value": asdict(self.value),
            "policy": asdict(self.policy),
        }


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """An agent on one program.

    Attributes:
      program, agent: which.
      objective: what latencies are judged by.
      simulations: of the search that chose the changes; 0 for the policy alone.
      horizon: imagined steps.
      scale: of rewards.
      production_s: what XLA's mapping comes to, or None.
      best_known: name of the line that is the best known without the agent.
      lines: that line, the one that follows XLA's mapping, the best of the run, the policy's own game, each once.
      changes: what the agent would change about the last, or None where there is no production mapping.
      tried: the agent's moves and random ones there.
    """

    program: Program
    agent: Agent
    objective: str
    simulations: int
    horizon: int
    scale: RewardScale
    production_s: float | None
    best_known: str
    lines: list[LineFigures]
    changes: Changes | None
    tried: tuple[Tried, Tried] | None

    def line(self, name: str) -> LineFigures | None:
        """Returns the line of that name, if there is one."""
        return next((line for line in self.lines if line.trace.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """The entry of the JSON list: docs/json.md."""
        return {
            "program": self.program.name,
            "program_sha256": self.program.sha256,
            "agent": self.agent.path,
            "step": self.agent.step,
            "objective": self.objective,
            "discount": self.agent.search.discount,
            "horizon": self.horizon,
            "simulations": self.simulations,
            "unit_us": self.scale.unit_s * 1e6,
            "room_us": self.scale.headroom_s * 1e6,
            "production_us": None if self.production_s is None else self.production_s * 1e6,
            "best_known": self.best_known,
            "lines": [line.as_json() for line in self.lines],
            "changes": None if self.changes is None else asdict(self.changes),
        }


def diagnose(agent: Agent, program: Program, horizon: int = HORIZON, simulations: int = 0) -> Diagnosis:
    """Diagnoses an agent on a program, which it need not have seen.

    Args:
      agent: the agent.
      program: the program.
      horizon: imagined steps.
      simulations: of the search that says what the agent would change; 0 asks the policy alone.

    Raises:
      UserError: the program leaves nothing to decide, or cannot be judged by the agent's objective; or the rules have
        changed since the run.
    """
    game = agent.actor.game(program)
    if game.done:
        raise UserError(f"workload {program.name!r} leaves nothing to decide; choose another")
    played = PlayedProgram(game, agent.actor.followed(program))
    discount = agent.search.discount
    follows = None if program.production is None else following(played, program.production)
    best_s, best = played.best
    of_run = _line_of_run(agent, played)
    # The opponent of the last games of training.
    opponent = of_run.preferences if of_run is not None and agent.actor.branch.opponent == BEST else played.first
    traces = [record_policy(played, agent.network, agent.params, discount, opponent)]
    if follows is not None:
        traces.insert(0, record_moves(PRODUCTION, played, follows.actions.tolist(), discount, opponent))
    best_known = PRODUCTION if follows is not None and follows.latency_s <= best_s else GREEDY
    if best_known == GREEDY:
        traces.insert(0, record_moves(GREEDY, played, best.tolist(), discount, opponent))
    if of_run is not None:
        traces.insert(-1, record_moves(RUN, played, of_run.actions.tolist(), discount, opponent))
    lines = [_along(agent, trace, horizon) for trace in traces]
    changes, tried = None, None
    production_s = agent.actor.judge(program).production_s
    if follows is not None and production_s is not None:
        along = next(line for line in lines if line.trace.name == PRODUCTION)
        changes, *pair = _changes(agent, played, follows, along, production_s, simulations)
        tried = pair[0], pair[1]
    return Diagnosis(
        program,
        agent,
        agent.actor.judge(program).objective,
        simulations,
        horizon,
        played.scale,
        production_s,
        best_known,
        lines,
        changes,
        tried,
    )


def _line_of_run(agent: Agent, played: PlayedProgram) -> LineOfPlay | None:
    moves = agent.lines.get(played.program.sha256)
    if moves is None:
        return None
    try:
        game = played.game_after(moves)
        if not game.done:
            raise ValueError("it stops before the end")
    except ValueError as error:
        raise UserError(
            f"{agent.path}: its line of play is not legal on {played.program.name!r} ({error}): the rules have changed "
            "since; use its own version"
        ) from error
    return LineOfPlay(played.unset_game(), np.array(moves, np.int64), played.outcome_s(game))


def _along(agent: Agent, trace: Trace, horizon: int) -> LineFigures:
    network, params = agent.network, agent.params
    seen = see(network, params, trace.observation)
    model = compare_model(
        network, params, trace, seen, horizon, STARTS, agent.search.discount, agent.seed, agent.projects
    )
    value = calibrate(seen.value, trace.value, network.config.value.limit)
    return LineFigures(trace, seen, model, value, describe_policy(trace, seen.logits))


def _changes(
    agent: Agent, played: PlayedProgram, line: LineOfPlay, along: LineFigures, production_s: float, simulations: int
) -> tuple[Changes, Tried, Tried]:
    trace = along.trace
    preferred: NDArray[np.int64]
    if simulations:
        config = agent.searching(simulations)
        preferred, weights = searched(agent.network, agent.params, trace.observation, trace.legal, config, agent.seed)
    else:
        weights = np.exp(log_policy(along.seen.logits, trace.legal))
        preferred = weights.argmax(-1)
    return find_changes(played, line, trace, preferred, weights, production_s, agent.seed)
