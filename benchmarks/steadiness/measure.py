"""Measures how far runs lie apart that differ in their seed alone (docs/results/steadiness.md).

    python -m benchmarks.steadiness.measure [--split validation train] [--shares 1 0.5] [--programs NAME ...]
        [--seconds 1] [--games N ...] [--seeds 10] [--players guided none anneal]

Seconds are processor time on one core; games are a limit of evaluations, with which a run repeats exactly. A record
that is there is not made again, so the command may be stopped and repeated. `python -m benchmarks.steadiness.page`
makes the page.
"""

import argparse
import gc
from pathlib import Path

from mallocmuzero.env import workloads
from mallocmuzero.launch.run.guided import read_scoring_parameters
from mallocmuzero.solvers.anneal import anneal
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.score import make_score
from mallocmuzero.solvers.learned.solver import make_guided
from mallocmuzero.solvers.solve import Solver, warm_up

from ..common.job_pool import one_thread
from ..common.json_lines import ROOT, Record, append, keyed_by, read_runs
from ..common.versions import GUIDED, versions_of
from ..policy.problems import Problem

RESULTS = ROOT / "docs" / "results" / "steadiness.jsonl"
key_of = keyed_by("program", "share", "objective", "seconds", "games", "player", "seed", "versions")
# Players, and the subjects of their versions.
TRAINED, NONE, ANNEAL = "guided", "none", "anneal"
PLAYERS = {TRAINED: GUIDED, NONE: GUIDED, ANNEAL: "anneal"}


def solver_of(player: str) -> Solver:
    """Returns `guided` with the shipped policy, `guided` without a network, or `anneal`."""
    if player == ANNEAL:
        return anneal
    return make_guided(make_score(read_scoring_parameters(None), None, 0) if player == TRAINED else None)


def solved(problem: Problem, player: Solver, budget: Budget, seed: int) -> Record:
    """Plays a problem; returns the record's figures: judged seconds, those of production, games and seconds spent."""
    program = problem.load()
    # Work done once per program, and the garbage of other programs, count towards no player's time.
    Task(program, None, problem.objective, Budget(1.0), seed)
    gc.collect()
    gc.disable()
    try:
        task = Task(program, None, problem.objective, budget, seed)
        player(task)
    finally:
        gc.enable()
    return {
        "judged_s": task.best_s,
        "production_s": task.game.judge.production_s,
        "games_played": task.evaluations,
        "spent_s": task.seconds,
        "accesses": program.num_accesses,
    }


def main() -> None:
    """Measures what is missing."""
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", nargs="+", default=["train", "validation"])
    parser.add_argument("--programs", nargs="+", help="these alone, of the splits")
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.5])
    parser.add_argument("--objectives", nargs="+", default=["msa"])
    parser.add_argument("--seconds", nargs="*", type=float, default=[1.0])
    parser.add_argument("--games", nargs="*", type=int, default=[])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    solvers = {name: solver_of(name) for name in arguments.players}
    for solver in solvers.values():
        warm_up(solver)
    budgets = [(seconds, None, Budget(seconds, clock=PROCESSOR)) for seconds in arguments.seconds]
    budgets += [(None, games, Budget(None, games)) for games in arguments.games]
    done = {key for key, _ in read_runs([arguments.results], key_of)}
    for split in arguments.split:
        for program in workloads.names_of(split):
            if arguments.programs and program not in arguments.programs:
                continue
            for share in arguments.shares:
                for objective in arguments.objectives:
                    problem = Problem(program, share, 1, objective)
                    for seconds, games, budget in budgets:
                        for seed in range(arguments.seeds):
                            for name, solver in solvers.items():
                                record: Record = {
                                    "program": program,
                                    "share": share,
                                    "objective": objective,
                                    "seconds": seconds,
                                    "games": games,
                                    "player": name,
                                    "seed": seed,
                                    "versions": versions_of(PLAYERS[name]),
                                    "split": split,
                                }
                                if key_of(record) in done:
                                    continue
                                record |= solved(problem, solver, budget, seed)
                                append(arguments.results, record)
                                ratio = record["judged_s"] / (record["production_s"] or record["judged_s"])
                                print(f"{problem.name} {name} seed {seed}: {ratio:.4f}", flush=True)


if __name__ == "__main__":
    main()
