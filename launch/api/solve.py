"""`solve`: maps a program with a solver, classical or learned."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.shown import Shown

if TYPE_CHECKING:
    from rich.table import Table

    from ...env.program.mapping import Mapping
    from ...env.program.program import Program
    from ...solvers.common.budget import Progress
    from ...solvers.solve import Solution
    from ..terminal.figures import LatencyRow
    from .picture import Picture

SECONDS = 60.0


@dataclass(frozen=True, eq=False, repr=False)
class Solved(Shown):
    """A solver's verified mapping, beside XLA's. Latencies are microseconds of steady execution, by cost model.

    Attributes:
      program: the program; its production is the mapping of XLA's algorithm where XLA's own is missing.
      mapping: the mapping.
      solver, seed, objective: what made the mapping, and what judged it.
      judged_us: the mapping's microseconds as the objective counts them; under `robust` they only order mappings.
      latency_us: the mapping's latency.
      production_us, flags_us, floor_us: latency of XLA's own mapping, of the best of XLA's flags, and with every
        instruction as fast as any placement makes it. None where the program has none.
      of_production, flags_of_production, floor_of_production: ratios to XLA's own mapping, by the objective.
      evaluations: games that the solver finished.
      seconds: time that the solver took.
      stopped: whether it was stopped before its budget was spent.
      workers: processes that searched, each with the whole budget; evaluations are those of all.
      missing: why XLA's own mapping could not be read back; None if it was. `production` then stands for the mapping
        of XLA's algorithm.
    """

    program: "Program"
    mapping: "Mapping"
    solver: str
    seed: int
    objective: str
    judged_us: float
    latency_us: dict[str, float | None]
    production_us: dict[str, float | None] | None
    flags_us: dict[str, float | None] | None
    floor_us: dict[str, float | None]
    of_production: float | None
    flags_of_production: float | None
    floor_of_production: float | None
    evaluations: int
    seconds: float
    stopped: bool
    workers: int = 1
    missing: str | None = None

    @property
    def compared(self) -> str:
        """The name of the mapping that ratios are relative to."""
        return "production" if self.missing is None else "XLA's algorithm"

    def save(self, path: str | Path) -> None:
        """Writes the mapping as a file. Raises UserError if it cannot be written."""
        from ...env.program.mapping_file import write_mapping
        from ...env.storage.destination import check_destination

        check_destination(path)
        write_mapping(self.mapping, self.program, path)

    def picture(self) -> "Picture":
        """Returns the picture of the mapping, with XLA's below it: fast memory, traffic and live bytes over time."""
        from .picture import draw

        return draw(self.program, self.mapping, self.program.production, (self.solver, f"XLA: {self.compared}"))

    def rows(self) -> "Iterator[LatencyRow]":
        """Yields the mappings of the table."""
        from ..terminal.figures import LatencyRow

        if self.production_us is not None:
            yield LatencyRow(self.compared, self.production_us, 1.0)
        if self.flags_us is not None:
            yield LatencyRow("production, best flags", self.flags_us, self.flags_of_production)
        yield LatencyRow(f"{self.solver} (verified)", self.latency_us, self.of_production)
        yield LatencyRow("floor", self.floor_us, self.floor_of_production)

    def tables(self) -> "Iterator[Table]":
        """Yields the mapping beside XLA's and the floor."""
        from ..terminal.figures import latency_table

        title = f"{self.program.name}: simulated latency, steady; objective {self.objective}"
        yield latency_table(title, list(self.rows()), self.compared)

    def lines(self) -> Iterator[str]:
        """Yields what the solver did."""
        by = "" if self.workers == 1 else f" by {self.workers} workers"
        yield f"{self.evaluations:,} games in {self.seconds:.1f} s{by}"

    def __repr__(self) -> str:
        """Returns a one-line summary."""
        from ..terminal.figures import percent

        return f"Solved({self.program.name!r} by {self.solver}: {percent(self.of_production)} of {self.compared})"

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of docs/json.md."""
        from ...env.physics.objective import make_judge

        judge = make_judge(self.program, self.objective)
        production_s, tuned = judge.production_s, judge.tuned()
        compared_us = None if production_s is None else production_s * 1e6
        return {
            "program": self.program.name,
            "solver": self.solver,
            "seed": self.seed,
            "objective": self.objective,
            "latency_us": self.judged_us,
            "production_us": compared_us if self.missing is None else None,
            "production_missing": self.missing,
            "xla_algorithm_us": None if self.missing is None else compared_us,
            "production_tuned_us": None if tuned is None else judge.seconds(tuned) * 1e6,
            "floor_us": judge.floor_s() * 1e6,
            "model_us": self.latency_us,
            "production_model_us": self.production_us,
            "production_tuned_model_us": self.flags_us,
            "floor_model_us": self.floor_us,
            "of_production": self.of_production,
            "production_tuned_of_production": self.flags_of_production,
            "floor_of_production": self.floor_of_production,
            "verified": True,  # `solve` returns nothing else
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "stopped": self.stopped,
            "workers": self.workers,
        }


def solve(
    program: "Program | str | Path",
    *,
    solver: str = "guided",
    seconds: float | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    objective: str | None = None,
    policy: str | Path | None = None,
    placebo: str | None = None,
    repack: bool = False,
    workers: int = 1,
    output: str | Path | None = None,
    progress: "Progress | None" = None,
) -> Solved:
    """Maps a program: decides which buffers live in fast memory, when, and which copies bring them there.

    The mapping is verified. The solvers `guided` and `policy` never return one that is worse than XLA's own.

    Args:
      program: a program, the name of a workload, or the path of a program file.
      solver: `guided` (a trained policy, then annealing), `policy`, `anneal`, or another of docs/solvers.md.
      seconds: time limit; a minute if no limit is given.
      evaluations: limit on games; with this limit alone, equal seeds give equal mappings.
      seed: of the solver.
      objective: `robust`, `msa` or `cycles`; None for `robust` where the program has a cycle table, else `msa`.
      policy: for `guided` and `policy`: a policy file or a run directory; None for the shipped policy.
      placebo: for `guided` and `policy`: what plays in the policy's place; `untrained`, `shuffled` or `none`.
      repack: repack the mapping at the end, as `guided` and `policy` always do.
      workers: processes that search in parallel, each with its own seed and the whole budget; the best mapping is kept.
        `policy` and the solvers that end by themselves gain nothing.
      output: file for the mapping, .json.gz; None for none.
      progress: called with the solver's status several times a second.

    Returns:
      The mapping and its figures. Ctrl-C ends the search and returns the best mapping so far.

    Raises:
      UserError: an argument cannot be used; the message says how to fix it. Nothing has been computed yet.
    """
    begin = prepare(
        program,
        solver=solver,
        seconds=seconds,
        evaluations=evaluations,
        seed=seed,
        objective=objective,
        policy=policy,
        placebo=placebo,
        repack=repack,
        workers=workers,
        output=output,
    )
    return begin(progress, None)


def prepare(
    program: "Program | str | Path",
    *,
    solver: str,
    seconds: float | None,
    evaluations: int | None,
    seed: int,
    objective: str | None,
    policy: str | Path | None,
    placebo: str | None,
    repack: bool,
    workers: int,
    output: str | Path | None,
    note: Callable[[str], None] | None = None,
) -> "Callable[[Progress | None, Callable[[], bool] | None], Solved]":
    """Checks the arguments of `solve` and compiles the solver; returns the search itself, to be called.

    Args:
      program, solver, seconds, evaluations, seed, objective, policy, placebo, repack, workers, output:
        see `solve`.
      note: takes a line if XLA's own mapping is missing.

    Returns:
      A function of `progress` (see `solve`) and of `stop`, called as often: the solver stops when `stop` returns True.

    Raises:
      UserError: an argument cannot be used.
    """
    from ...env.errors import UserError
    from ...env.program.mapping_file import write_mapping
    from ...env.storage.destination import check_destination
    from ...solvers.common.budget import Budget
    from ...solvers.learned.score import PLACEBOS
    from ...solvers.solve import SOLVERS, Solvers
    from ...solvers.solve import solve as run_solver
    from ...solvers.stand_in import why_missing, with_stand_in
    from ..run.guided import LEARNED, learned_solvers
    from ..run.workers import Request, check_workers, solve_with_workers
    from ..start.solving import compile_solver, known
    from .load import load

    if seed < 0:
        raise UserError(f"--seed {seed} is none; give 0 or more")
    check_workers(workers)
    for option, value in (("--policy", policy), ("--placebo", placebo)):
        if value is not None and solver not in LEARNED:
            raise UserError(f"{option} goes with --solver {' or '.join(LEARNED)}, not {solver}; leave one out")
    if placebo not in (None, *PLACEBOS):
        raise UserError(f"--placebo {placebo}: choose from {', '.join(PLACEBOS)}")
    unlimited = seconds is None and evaluations is None
    budget = Budget(SECONDS if unlimited else seconds, evaluations)
    check_destination(output, "-o")
    known(solver, [*LEARNED, *SOLVERS])
    program = load(program)
    solvers: Solvers = {**SOLVERS, **learned_solvers(policy, placebo)}
    missing = why_missing(program)
    if missing is not None:
        if note is not None:
            note(f"{missing}. It is compared with the mapping of XLA's algorithm (solver xla) instead")
        compile_solver(solver, solvers, program, objective, "xla")
        program = with_stand_in(program)
    else:
        compile_solver(solver, solvers, program, objective)
    prepared = program

    def search(progress: "Progress | None", stop: Callable[[], bool] | None) -> Solved:
        if workers > 1:
            given = None if policy is None else str(Path(policy).absolute())
            request = Request(solver, objective, budget, seed, given, placebo, repack or solver in LEARNED)
            solution = solve_with_workers(prepared, request, workers, progress, stop)
            return finish(solution)
        solution = run_solver(
            prepared,
            solver,
            objective=objective,
            budget=budget,
            seed=seed,
            progress=progress,
            stop=stop,
            repack=repack or solver in LEARNED,
            solvers=solvers,
        )
        return finish(solution)

    def finish(solution: "Solution") -> Solved:
        if output is not None:
            write_mapping(solution.mapping, prepared, output)
        return _solved(prepared, solution, missing, workers)

    return search


def _solved(program: "Program", solution: "Solution", missing: str | None, workers: int) -> Solved:
    from ...env.physics.cost import MODELS, available_models, floor_latency
    from ...env.physics.objective import latencies, make_judge

    def us(seconds: "dict[str, float | None] | dict[str, float]") -> dict[str, float | None]:
        return {model: None if (s := seconds.get(model)) is None else s * 1e6 for model in MODELS}

    judge = make_judge(program, solution.objective)
    tuned, production_s = judge.tuned(), judge.production_s
    priced = available_models(program)
    floors = {model: floor_latency(program, program.target, model) for model in MODELS if model in priced}

    def ratio(judged_s: float) -> float | None:
        return judged_s / production_s if production_s else None

    return Solved(
        program=program,
        mapping=solution.mapping,
        solver=solution.solver,
        seed=solution.seed,
        objective=solution.objective,
        judged_us=solution.judged_s * 1e6,
        latency_us=us(latencies(program, solution.mapping)),
        production_us=None if program.production is None else us(latencies(program, program.production)),
        flags_us=None if tuned is None else us(tuned),
        floor_us=us(floors),
        of_production=ratio(solution.judged_s),
        flags_of_production=None if tuned is None else ratio(judge.seconds(tuned)),
        floor_of_production=ratio(judge.floor_s()),
        evaluations=solution.evaluations,
        seconds=solution.seconds,
        stopped=solution.stopped,
        workers=workers,
        missing=missing,
    )
