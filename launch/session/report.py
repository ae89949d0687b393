"""The report of a run: the agent beside the reference players and XLA's production mapping."""

from collections.abc import Callable, Sequence
from pathlib import Path

from ...actors.evaluate.evaluate import Evaluation, evaluate_mapping, evaluate_references
from ...actors.self_play.best_mappings import BestMappings
from ...env.physics.cost import MSA
from ...env.physics.objective import ROBUST
from ...env.program.mapping_file import write_mapping
from ...env.program.program import Program
from ...env.viewer import picture
from ...learner.networks.network import Network, Params
from ..config.config import TrainConfig
from ..run.directory import RunDirectory
from ..run.json_file import write_json_file
from ..run.policy import read_policy_of_run
from ..terminal.console import show_line
from .builders import evaluate_agent, evaluated_programs, evaluation_search
from .compiled import compile_evaluation
from .evaluation_row import Row, row_of
from .evaluation_tables import BEST_OF_TRAINING, BETTER, PRODUCTION, show_evaluations
from .session import Session


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
            production = evaluate_mapping(judge, program.production, PRODUCTION)
            mapping = min([production, *agent], key=lambda e: e.latency_us if e.verified else float("inf")).mapping
            evaluations.append(evaluate_mapping(judge, mapping, BETTER))
    return evaluations


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
