"""Measures the trained policy beside its placebos (docs/policy.md): every player gets the same processor time.

    python -m benchmarks.policy.measure [--split heldout] [--objectives msa robust] [--shares 1 0.5]
        [--seconds 0 0.1 1] [--seeds 2] [--long ACCESSES] [--policy FILE] [--programs NAME ...]

0 seconds stands for players that end by themselves: the policy alone, and rules. A record that is there is not made
again, so the command may be stopped and repeated. `python -m benchmarks.policy.page` makes the page.
"""

import argparse
import gc
import hashlib
from pathlib import Path

from mallocmuzero.launch.run.shipped import SHIPPED
from mallocmuzero.learner.checkpoints.policy_file import read_policy
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.solve import Solver, warm_up

from ..common.json_lines import ROOT, Record, append, keyed_by, read_runs
from ..common.versions import GUIDED, versions_of
from .players import instant_players, timed_players
from .problems import Problem, long_problems, problems

RESULTS = ROOT / "docs" / "results" / "policy.jsonl"
key_of = keyed_by(
    "program", "program_sha256", "share", "times", "objective", "seconds", "player", "seed", "policy", "versions"
)
# Far more than any player that ends by itself takes.
_UNLIMITED_S = 600.0


def fingerprint(policy: Path | None) -> str:
    """Returns the first digits of a policy file's hash."""
    return hashlib.sha256((SHIPPED if policy is None else policy).read_bytes()).hexdigest()[:12]


def training_of(policy: Path | None) -> Record:
    """Returns how a policy was trained: its seed, its updates, and the number of programs."""
    info = read_policy(SHIPPED if policy is None else policy).info
    return {"seed": info["seed"], "updates": info["step"], "programs": len(info["programs"])}


def solved(problem: Problem, player: Solver, seconds: float, seed: int) -> Record:
    """Plays a problem; returns the record's figures: judged seconds, those of production, games and seconds spent."""
    program = problem.load()
    # Work done once per program, and the garbage of other programs, count towards no player's time.
    Task(program, None, problem.objective, Budget(1.0), seed)
    gc.collect()
    gc.disable()
    try:
        task = Task(program, None, problem.objective, Budget(seconds or _UNLIMITED_S, clock=PROCESSOR), seed)
        player(task)
    finally:
        gc.enable()
    return {
        "judged_s": None if task.best_s == float("inf") else task.best_s,
        "production_s": task.game.judge.production_s,
        "games": task.evaluations,
        "spent_s": task.seconds,
        "accesses": program.num_accesses,
    }


def main() -> None:
    """Measures what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", default="heldout")
    parser.add_argument("--objectives", nargs="+", default=["msa", "robust"])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.5])
    parser.add_argument("--seconds", nargs="+", type=float, default=[0.0, 0.1, 1.0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--long", type=int, metavar="ACCESSES", help="programs repeated to about so many accesses")
    parser.add_argument("--policy", type=Path, help="a policy file; by default the shipped one")
    parser.add_argument("--programs", nargs="+", help="these alone")
    parser.add_argument("--players", nargs="+", help="these alone")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    chosen = (
        problems(arguments.split, arguments.shares, arguments.objectives)
        if arguments.long is None
        else long_problems(arguments.split, arguments.long, arguments.objectives)
    )
    policy, training, versions = fingerprint(arguments.policy), training_of(arguments.policy), versions_of(GUIDED)
    done = {key for key, _ in read_runs([arguments.results], key_of)}
    for player in (*instant_players(arguments.policy, 0).values(), *timed_players(arguments.policy, 0).values()):
        warm_up(player)
    for seconds in arguments.seconds:
        for problem in chosen:
            if arguments.programs and problem.program not in arguments.programs:
                continue
            for seed in range(arguments.seeds):
                players = (timed_players if seconds else instant_players)(arguments.policy, seed)
                for name, player in players.items():
                    if arguments.players and name not in arguments.players:
                        continue
                    record: Record = {
                        **problem._asdict(),
                        "program_sha256": problem.program_sha256,
                        "seconds": seconds,
                        "player": name,
                        "seed": seed,
                        "policy": policy,
                        "training": training,
                        "versions": versions,
                        "split": arguments.split,
                    }
                    if key_of(record) in done:
                        continue
                    record |= solved(problem, player, seconds, seed)
                    append(arguments.results, record)
                    ratio = (record["judged_s"] or 0) / (record["production_s"] or 1)
                    print(f"{problem.name} {problem.objective} {seconds:g} s {name}: {ratio:.4f}", flush=True)


if __name__ == "__main__":
    main()
