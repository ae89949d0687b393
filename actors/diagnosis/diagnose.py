"""Diagnoses an agent on one program: its model, value and policy along lines of play, and its changes to XLA's."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.program.program import Program
from ...solvers.common.line import LineOfPlay
from ...solvers.common.reward_scale import RewardScale
from ..self_play.programs import BEST, ProgramContext
from .agent import Agent
from .changes import Changes, Tried, find_changes
from .inference import Heads, infer, masked_log_softmax, search_moves
from .model import ModelErrors, compare_model
from .policy import PolicyFigures, describe_policy
from .trace import GREEDY, PRODUCTION, RUN, Trace, follow_mapping, record_moves, record_policy
from .value import Calibration, calibrate

HORIZON = 10
STARTS = 256


@dataclass(frozen=True, eq=False)
class LineFigures:
    """The agent along one line of play.

    Attributes:
      trace: the line.
      heads: the network's outputs at its positions.
      model: errors of the learned model.
      value: calibration of the value head.
      policy: confidence of the policy head, and its agreement with the line.
    """

    trace: Trace
    heads: Heads
    model: ModelErrors
    value: Calibration
    policy: PolicyFigures

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of the JSON list."""
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
    """The diagnosis of an agent on one program.

    Attributes:
      program, agent: the program and the agent.
      objective: the objective of all latencies.
      simulations: of the search that chose the changes; 0 for the policy alone.
      horizon: imagined steps.
      scale: the scale of rewards.
      production_s: judged seconds of XLA's mapping, or None.
      best_known: name of the best line known without the agent.
      lines: the figures along that line, the line that follows XLA's mapping, the best of the run, and the policy's own
        game, each once.
      changes: the agent's changes to the line that follows XLA's mapping; None without a production mapping.
      tried: the agent's moves there and random ones.
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
        """Returns the figures of the line with that name, if there is one."""
        return next((line for line in self.lines if line.trace.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of the JSON list: docs/json.md."""
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


def diagnose(agent: Agent, program: Program, *, horizon: int = HORIZON, simulations: int = 0) -> Diagnosis:
    """Diagnoses an agent on a program, which may be new to it.

    Args:
      agent: the agent.
      program: the program.
      horizon: imagined steps.
      simulations: of the search that chooses the agent's changes; 0 for the policy's first choice.

    Raises:
      UserError: the program leaves nothing to decide or lacks what the agent's objective needs, or the rules have
        changed since the run.
    """
    game = agent.actor.game(program)
    if game.done:
        raise UserError(f"workload {program.name!r} leaves nothing to decide; choose another")
    context = ProgramContext(game, agent.actor.followed(program))
    discount = agent.search.discount
    follows = None if program.production is None else follow_mapping(context, program.production)
    best_s, best = context.best
    of_run = _line_of_run(agent, context)
    # The opponent in the last games of training.
    opponent = of_run.preferences if of_run is not None and agent.actor.branch.opponent == BEST else context.first
    traces = [record_policy(context, agent.network, agent.params, discount, opponent)]
    if follows is not None:
        traces.insert(0, record_moves(PRODUCTION, context, follows.actions.tolist(), discount, opponent))
    best_known = PRODUCTION if follows is not None and follows.latency_s <= best_s else GREEDY
    if best_known == GREEDY:
        traces.insert(0, record_moves(GREEDY, context, best.tolist(), discount, opponent))
    if of_run is not None:
        traces.insert(-1, record_moves(RUN, context, of_run.actions.tolist(), discount, opponent))
    lines = [_along(agent, trace, horizon) for trace in traces]
    changes, tried = None, None
    production_s = agent.actor.judge(program).production_s
    if follows is not None and production_s is not None:
        along = next(line for line in lines if line.trace.name == PRODUCTION)
        changes, *pair = _changes(
            agent, context, follows, along=along, production_s=production_s, simulations=simulations
        )
        tried = pair[0], pair[1]
    return Diagnosis(
        program=program,
        agent=agent,
        objective=agent.actor.judge(program).objective,
        simulations=simulations,
        horizon=horizon,
        scale=context.scale,
        production_s=production_s,
        best_known=best_known,
        lines=lines,
        changes=changes,
        tried=tried,
    )


def _line_of_run(agent: Agent, context: ProgramContext) -> LineOfPlay | None:
    """Returns the best line of the agent's run on this program, if there is one."""
    moves = agent.lines.get(context.program.sha256)
    if moves is None:
        return None
    try:
        game = context.game_after(moves)
        if not game.done:
            raise ValueError("it stops before the end")
    except ValueError as error:
        raise UserError(
            f"{agent.path}: its line of play is not legal on {context.program.name!r} ({error}): the rules have "
            "changed since; use its own version"
        ) from error
    return LineOfPlay(context.clone_game(), np.array(moves, np.int64), context.final_latency_s(game))


def _along(agent: Agent, trace: Trace, horizon: int) -> LineFigures:
    """Returns the figures of an agent along a line."""
    network, params = agent.network, agent.params
    heads = infer(network, params, trace.observation)
    model = compare_model(
        network,
        params,
        trace,
        heads,
        horizon=horizon,
        starts=STARTS,
        discount=agent.search.discount,
        seed=agent.seed,
        projects=agent.projects,
    )
    value = calibrate(heads.value, trace.value, network.config.value.limit)
    return LineFigures(trace, heads, model, value, describe_policy(trace, heads.logits))


def _changes(
    agent: Agent,
    context: ProgramContext,
    line: LineOfPlay,
    *,
    along: LineFigures,
    production_s: float,
    simulations: int,
) -> tuple[Changes, Tried, Tried]:
    """Returns the agent's changes to a line, by its policy or its search, and the moves that were tried."""
    trace = along.trace
    preferred: NDArray[np.int64]
    if simulations:
        config = agent.searching(simulations)
        preferred, weights = search_moves(
            agent.network, agent.params, trace.observation, trace.legal, config, agent.seed
        )
    else:
        weights = np.exp(masked_log_softmax(along.heads.logits, trace.legal))
        preferred = weights.argmax(-1)
    return find_changes(
        context,
        line,
        trace,
        preferred=preferred,
        probability=weights,
        production_s=production_s,
        seed=agent.seed,
    )
