"""The report of a run: the agent beside the reference players and XLA's production mapping."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from ...actors.evaluate.evaluate import Evaluation, evaluate_mapping, evaluate_references
from ...actors.self_play.best_mappings import BestMappings
from ...env.physics.cost import MODELS, MSA
from ...env.physics.objective import ROBUST
from ...env.program.mapping_file import write_mapping
from ...env.program.program import Program
from ...env.viewer import picture
from ...learner.networks.network import Network, Params
from ..config.config import TrainConfig
from ..run.directory import RunDirectory
from ..run.json_file import write_json_file
from ..run.policy import read_policy_of_run
from ..terminal.console import show_line, show_table
from ..terminal.figures import percent, us_text
from .builders import evaluate_agent, evaluated_programs, evaluation_search
from .compiled import compile_evaluation
from .session import Session

BEST_OF_TRAINING = "muzero-best"
BETTER = "muzero-or-production"


@dataclass(frozen=True)
class Row:
    """One row of the evaluation (docs/json.md)."""

    program: str
    family: str
    solver: str
    model: str
    latency_us: float
    production_us: float | None
    verified: bool
    seconds: float
    simulations: int
    model_us: dict[str, float | None]
    exact: float | None

    def as_json(self) -> dict[str, Any]:
        """Returns the entry of the JSON list."""
        return {**asdict(self), "objective": self.model}


def row_of(evaluation: Evaluation) -> Row:
    """Returns the row of an evaluation."""
    return Row(**{name: getattr(evaluation, name) for name in Row.__dataclass_fields__})


def evaluate_run(
    run_dir: str | Path,
    programs: Sequence[Program],
    simulations: int | None = None,
    compile_networks: Callable[[TrainConfig, int], None] | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Row]:
    """Plays programs with the agent of a run's last checkpoint, beside the reference players.

    Args:
      run_dir: the run directory.
      programs: programs to play; the agent need not have seen them.
      simulations: simulations per move of the search; None for the run's own setting.
      compile_networks: called before anything is timed, with the run's configuration and the simulations.
      progress: called with a line about what begins.

    Raises:
      UserError: there is no whole checkpoint of this version.
    """
    run = RunDirectory(run_dir)
    config, manifest = run.open()
    network, params, _ = read_policy_of_run(run)
    if compile_networks is not None:
        compile_networks(config, _simulations(config, simulations))
    trained = {program.sha256 for program in run.programs(manifest)}
    best = BestMappings([program for program in programs if program.sha256 in trained], config.actor)
    best.load(run.best)
    evaluations = evaluate_all(config, network, params, programs, best=best, simulations=simulations, progress=progress)
    return [row_of(evaluation) for evaluation in evaluations]


def _simulations(config: TrainConfig, simulations: int | None) -> int:
    """Returns the simulations per move, if not given those of the run's own evaluations."""
    return simulations or config.schedule.evaluate_simulations or config.search.simulations


def evaluate_all(
    config: TrainConfig,
    network: Network,
    params: Params,
    programs: Sequence[Program],
    *,
    best: BestMappings,
    simulations: int | None,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Evaluation]:
    """Returns all evaluations, program by program: references, agent, best of training, better of agent and XLA.

    Args:
      config: the run's configuration.
      network, params: the agent.
      programs: programs to play.
      best: the best mappings of training.
      simulations: simulations per move of the search; None for the run's own setting.
      progress: called with a line about what begins.
    """
    played = programs[0].name if len(programs) == 1 else f"{len(programs)} programs"
    simulations = _simulations(config, simulations)
    compile_evaluation(config, len(programs), simulations)
    search = evaluation_search(config, simulations)
    progress(f"{played}: the policy plays")
    policy = evaluate_agent(config, network, params, programs, None)
    progress(f"{played}: the search plays, {simulations} simulations a move")
    searched = evaluate_agent(config, network, params, programs, search)
    evaluations = []
    for number, (program, by_policy, by_search) in enumerate(zip(programs, policy, searched, strict=True), start=1):
        progress(f"{program.name}: beside the references ({number} of {len(programs)})")
        agent, judge = [by_policy, by_search], config.actor.judge(program)
        if program.name in best:
            agent.append(evaluate_mapping(judge, best[program.name].mapping, BEST_OF_TRAINING))
        evaluations += [*evaluate_references(program, config.actor, config.seed), *agent]
        if program.production is not None:
            production = evaluate_mapping(judge, program.production, "production")
            mapping = min([production, *agent], key=lambda e: e.latency_us if e.verified else float("inf")).mapping
            evaluations.append(evaluate_mapping(judge, mapping, BETTER))
    return evaluations


def evaluations_table(rows: Iterable[Row]) -> Table:
    """Returns the table of the evaluation. The title has what all rows share, so that the rest fits a terminal."""
    rows = list(rows)
    programs, objectives = ({row.program: None for row in rows}, {row.model: None for row in rows})
    verified = all(row.verified for row in rows)
    models = [model for model in MODELS if any(row.model_us[model] is not None for row in rows)]
    common = [
        next(iter(programs)) if len(programs) == 1 else "evaluation",
        "simulated latency, steady",
        *(f"objective {objective}" for objective in objectives if len(objectives) == 1),
        *(["all verified"] if verified else []),
    ]
    table = Table(title=f"{common[0]}: {'; '.join(common[1:])}")
    varying = [("program", programs), ("solver", None), ("objective", objectives)]
    for heading in [heading for heading, values in varying if values is None or len(values) > 1]:
        table.add_column(heading, no_wrap=True)
    for heading in (*(f"{model} us" for model in models), "of production", "seconds", *["verified"] * (not verified)):
        table.add_column(heading, justify="right", no_wrap=True)
    program = None
    for row in rows:
        if program not in (None, row.program):
            table.add_section()
        program = row.program
        table.add_row(
            *([row.program] if len(programs) > 1 else []),
            row.solver + (f" ({row.simulations})" if row.simulations else ""),
            *([row.model] if len(objectives) > 1 else []),
            *(us_text(row.model_us[model]) for model in models),
            percent(None if row.production_us is None else row.latency_us / row.production_us),
            f"{row.seconds:.2f}",
            *([] if verified else ["yes" if row.verified else "NO"]),
        )
    return table


def means_table(rows: Iterable[Row]) -> Table | None:
    """Returns the table of what each solver comes to over several programs; None for one, or where none compare.

    It has the solvers that played all programs with a production mapping.
    """
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row.production_us:
            ratios.setdefault(row.solver, []).append(row.latency_us / row.production_us)
    most = max(map(len, ratios.values()), default=0)
    if most < 2:
        return None
    table = Table(title=f"Over {most} programs, of production")
    table.add_column("solver", no_wrap=True)
    for heading in ("geometric mean", "best", "worst"):
        table.add_column(heading, justify="right", no_wrap=True)
    for solver, found in ratios.items():
        if len(found) == most:
            mean = float(np.exp(np.mean(np.log(found))))
            table.add_row(solver, *(percent(ratio) for ratio in (mean, min(found), max(found))))
    return table


def show_evaluations(rows: Sequence[Row]) -> None:
    """Prints the table of the evaluation, and under it what it comes to over several programs."""
    show_table(evaluations_table(rows))
    means = means_table(rows)
    if means is not None:
        show_table(means)


def finish(session: Session, params: Params) -> list[Row]:
    """Evaluates a run that has ended, prints the table, and writes mappings and pictures to the run directory.

    Raises:
      UserError: a file cannot be written.
    """
    run, config = session.run, session.config
    programs = evaluated_programs(config, session.programs)
    some = "" if len(programs) == len(session.programs) else f" {len(programs)} of {len(session.programs)} programs"
    session.say(f"evaluating{some}")
    evaluations = evaluate_all(config, session.network, params, programs, best=session.best, simulations=None)
    rows = [row_of(evaluation) for evaluation in evaluations]
    write_json_file(run.evaluation_file, [row.as_json() for row in rows])
    written = []
    for program in programs:
        written += _write_best(run, program, [e for e in evaluations if e.program == program.name])
    show_evaluations(rows)
    for path in written:
        show_line(f"wrote {path}")
    show_line(f"report: mallocmuzero report {run.name} -o report.html")
    return rows


def _write_best(run: RunDirectory, program: Program, evaluations: list[Evaluation]) -> list[Path]:
    """Writes the agent's best mapping of a program and a picture of it beside production; returns the paths."""
    agent = [e for e in evaluations if e.solver.startswith("muzero") and e.solver != BETTER and e.verified]
    if not agent:
        return []
    best = min(agent, key=lambda e: e.latency_us)
    drawn = MSA if best.model == ROBUST else best.model  # A picture has one time axis.
    mapping_path, picture_path = run.best / f"{program.name}.mapping.json.gz", run.best / f"{program.name}.png"
    write_mapping(best.mapping, program, mapping_path)
    picture.draw(
        program,
        best.mapping,
        picture_path,
        beside=program.production,
        names=(_words(best), "XLA's production"),
        model=drawn,
    )
    return [mapping_path, picture_path]


def _words(evaluation: Evaluation) -> str:
    return f"mallocMuZero ({evaluation.solver})"
