"""`mallocmuzero solve`: maps a program with a solver, classical or learned."""

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.json_output import add_json_option, write_json

if TYPE_CHECKING:
    from rich.status import Status as RichStatus

    from ...env.program.program import Program
    from ...solvers.common.budget import Status
    from ...solvers.solve import Solution

_SECONDS = 60.0
_LINE_SECONDS = 5.0


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "solve",
        help="map a program with a solver",
        description="Maps a program with a trained policy and a search, or with a classical solver. Shows the mapping "
        "beside XLA's, than which that of the learned solvers is never worse. The time limit and Ctrl-C keep the best "
        "mapping so far.",
    )
    parser.add_argument("program", metavar="PROGRAM", help="name of a workload, or a program file")
    parser.add_argument(
        "--solver",
        default="guided",
        metavar="NAME",
        help="guided (the default): changes that the policy proposes, then annealing; policy: the policy alone, which "
        "ends by itself; anneal: no policy; or another of docs/solvers.md",
    )
    parser.add_argument(
        "--policy",
        metavar="FILE|RUN_DIR",
        help="for guided and policy: a policy file or a run directory; by default the shipped policy",
    )
    parser.add_argument(
        "--placebo",
        metavar="untrained|shuffled|none",
        help="for guided and policy: what plays in the policy's place, to see what the policy is worth",
    )
    parser.add_argument("--seconds", type=float, metavar="S", help="time limit; 60 if there is no limit at all")
    parser.add_argument(
        "--evaluations", type=int, metavar="N", help="limit of games; equal seeds then give equal mappings"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    parser.add_argument("--objective", metavar="O", help="robust (the default where it can be), msa or cycles")
    parser.add_argument(
        "--repack",
        action="store_true",
        help="at the end, pack the mapping anew and fill the fast memory that this frees (guided and policy always do)",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="MAPPING", help="the mapping, .json.gz")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; 130 or 143 if a signal ended it early, with the best mapping so far written."""
    from ...env import workloads
    from ...env.errors import UserError
    from ...env.program.mapping_file import write_mapping
    from ...solvers.common.budget import Budget
    from ...solvers.learned.score import PLACEBOS
    from ...solvers.solve import SOLVERS, Solvers, solve
    from ...solvers.stand_in import why_missing, with_stand_in
    from ..run.guided import LEARNED, learned_solvers
    from ..start.solving import compile_solver
    from ..terminal.stop import StopRequest

    if arguments.seed < 0:
        raise UserError(f"--seed {arguments.seed} is none; give 0 or more")
    for option, value in (("--policy", arguments.policy), ("--placebo", arguments.placebo)):
        if value is not None and arguments.solver not in LEARNED:
            raise UserError(
                f"{option} goes with --solver {' or '.join(LEARNED)}, not {arguments.solver}; leave one out"
            )
    if arguments.placebo not in (None, *PLACEBOS):
        raise UserError(f"--placebo {arguments.placebo}: choose from {', '.join(PLACEBOS)}")
    unlimited = arguments.seconds is None and arguments.evaluations is None
    budget = Budget(_SECONDS if unlimited else arguments.seconds, arguments.evaluations)
    program = workloads.load(arguments.program)
    solvers: Solvers = {**SOLVERS, **learned_solvers(arguments.policy, arguments.placebo)}
    missing = why_missing(program)
    if missing is not None:
        # The first line of the table's output; with `--json -` standard output is JSON alone.
        line = f"{missing}. It is compared with the mapping of XLA's algorithm (solver xla) instead"
        print(line, file=sys.stderr if arguments.json == "-" else sys.stdout, flush=True)
        compile_solver(arguments.solver, solvers, program, arguments.objective, "xla")
        program = with_stand_in(program)
    else:
        compile_solver(arguments.solver, solvers, program, arguments.objective)
    with StopRequest() as stop, _Progress() as progress:
        solution = solve(
            program,
            arguments.solver,
            objective=arguments.objective,
            budget=budget,
            seed=arguments.seed,
            progress=progress.show,
            stop=lambda: bool(stop),
            repack=arguments.repack or arguments.solver in LEARNED,
            solvers=solvers,
        )
    write_mapping(solution.mapping, program, arguments.output)
    result = describe(program, solution, missing)
    if arguments.json is not None:
        write_json(result, arguments.json)
    if arguments.json != "-":
        _print_table(result)
        print(f"wrote {arguments.output}")
        given = f" --program {arguments.program}" if not workloads.is_workload(arguments.program) else ""
        print(f"report: mallocmuzero report {arguments.output}{given} -o report.html")
    return stop.status


def describe(program: "Program", solution: "Solution", missing: str | None = None) -> dict[str, Any]:
    """Returns the JSON object of a solution: docs/json.md.

    Args:
      program: the program; with a stand-in for production where that is missing.
      solution: the solution.
      missing: why production is missing; None if it is not.
    """
    from ...env.physics.objective import latencies, make_judge

    judge = make_judge(program, solution.objective)
    production_s, tuned = judge.production_s, judge.tuned()
    tuned_s = None if tuned is None else judge.seconds(tuned)
    by_model = latencies(program, solution.mapping)
    compared_us = None if production_s is None else production_s * 1e6
    return {
        "program": program.name,
        "solver": solution.solver,
        "seed": solution.seed,
        "objective": solution.objective,
        "latency_us": solution.judged_s * 1e6,
        "production_us": compared_us if missing is None else None,
        "production_missing": missing,
        "xla_algorithm_us": None if missing is None else compared_us,
        "production_tuned_us": None if tuned_s is None else tuned_s * 1e6,
        "floor_us": judge.floor_s() * 1e6,
        "model_us": {model: None if seconds is None else seconds * 1e6 for model, seconds in by_model.items()},
        "verified": True,  # `solve` returns nothing else
        "evaluations": solution.evaluations,
        "seconds": solution.seconds,
        "stopped": solution.stopped,
    }


def _print_table(result: dict[str, Any]) -> None:
    from rich.table import Table

    from ..terminal.console import stdout_console

    table = Table(title=f"{result['program']}: simulated latency, steady; objective {result['objective']}")
    table.add_column("mapping", no_wrap=True)
    known = result["production_missing"] is None
    for heading in ("latency us", "of production" if known else "of XLA's algorithm"):
        table.add_column(heading, justify="right", no_wrap=True)
    compared = result["production_us"] if result["production_missing"] is None else result["xla_algorithm_us"]
    for name, key in (
        ("production", "production_us"),
        ("XLA's algorithm", "xla_algorithm_us"),
        ("production, best flags", "production_tuned_us"),
        (f"{result['solver']} (verified)", "latency_us"),
        ("floor", "floor_us"),
    ):
        figure = result[key]
        if figure is not None:
            table.add_row(name, f"{figure:,.2f}", f"{100 * figure / compared:.2f} %" if compared else "-")
    stdout_console().print(table)
    models = ", ".join(f"{us:.2f} us ({model})" for model, us in result["model_us"].items() if us is not None)
    print(f"{models}; {result['evaluations']:,} games in {result['seconds']:.1f} s")


class _Progress:
    """Shows the solver's progress on standard error: live in a terminal, else as a line every few seconds."""

    def __init__(self) -> None:
        self._live: RichStatus | None = None
        self._terminal = sys.stderr.isatty()
        self._shown_at = time.monotonic()

    def __enter__(self) -> "_Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, status: "Status") -> None:
        """Shows a status, unless the last one was shown a moment ago."""
        now = time.monotonic()
        if now - self._shown_at < (0.2 if self._terminal else _LINE_SECONDS):
            return
        self._shown_at = now
        best = "no mapping yet" if status.best_s == float("inf") else f"best {status.best_s * 1e6:,.2f} us"
        text = f"{status.seconds:.0f} s · {status.evaluations:,} games · {best} · {status.doing}"
        if not self._terminal:
            print(text, file=sys.stderr, flush=True)
        elif self._live is not None:
            self._live.update(text)
        else:
            from ..terminal.console import stderr_console

            self._live = stderr_console().status(text)
            self._live.start()
