"""`tune`: makes compiler options for a JAX function, confirmed by the real compiler."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.mode import say
from ..terminal.shown import Shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from rich.table import Table

    from ...env.program.mapping import Mapping as ProgramMapping
    from ...env.program.program import Program
    from ...roundtrip.tune import Search
    from ...roundtrip.tune import Tuned as Outcome
    from ...solvers.common.budget import Budget
    from ...solvers.solve import Solution, Solvers

MINUTES = 10.0
SOLVER = "guided"


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Shown):
    """Compiler options, and the latencies that the compiler confirmed, in microseconds by cost model.

    Attributes:
      options: for `jax.jit(f).lower(...).compile(compiler_options=options)`; empty where XLA's default is the best.
      program: the captured function.
      mapping: the mapping that the compiler makes with the options.
      default_us, promised_us, confirmed_us: latency of XLA's own mapping, of the solver's, and of `mapping`.
      flags_us: latency of the best of XLA's flags; None where there was no time to try them.
      gain_percent: the confirmed gain over the compiler's default, in percent, by cost model; None where there is none.
      report: the JSON object of docs/json.md.
    """

    options: dict[str, str]
    program: "Program"
    mapping: "ProgramMapping"
    default_us: dict[str, float | None]
    promised_us: dict[str, float | None]
    confirmed_us: dict[str, float | None]
    flags_us: dict[str, float | None] | None
    gain_percent: dict[str, float | None]
    report: dict[str, Any]

    def save(self, path: str | Path) -> None:
        """Writes the options (see `write_options`). Raises UserError if they cannot be written."""
        from ...roundtrip.options_file import write_options

        write_options(self.options, Path(path))

    def tables(self) -> "Iterator[Table]":
        """Yields the latencies."""
        from ..terminal.confirmation_report import latencies_of

        yield latencies_of(self.report)

    def lines(self) -> Iterator[str]:
        """Yields what was realised, what was tried, and the verdict."""
        from ..terminal.confirmation_report import lines_of, missing_line

        first = missing_line(self.report)
        if first is not None:
            yield first
        yield from lines_of(self.report)

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of docs/json.md."""
        return self.report

    def __repr__(self) -> str:
        """Returns a one-line summary."""
        gains = ", ".join(f"{gain:+.2f} % {model}" for model, gain in self.gain_percent.items() if gain is not None)
        return f"Tuned({self.program.name!r}: {len(self.options)} options, confirmed {gains})"


def tune(
    function: "Callable[..., Any] | str | Path",
    arguments: Sequence[Any] | None = None,
    *,
    target: str = "v5e",
    minutes: float = MINUTES,
    solver: str = SOLVER,
    objective: str | None = None,
    seed: int = 0,
    workers: int = 1,
    flags_only: bool = False,
    scoped_memory: bool = False,
    python: str | Path | None = None,
    jax: str | None = None,
    compiler_options: Mapping[str, str] | None = None,
    devices: Sequence[int] | str = (),
    output: str | Path | None = None,
    program_output: str | Path | None = None,
    progress: Callable[[str], None] = say,
) -> Tuned:
    """Finds compiler options that make a JAX function faster on a TPU, which need not be present.

    Captures the function, maps it, translates the mapping into options, and keeps the best options that the real
    compiler confirms. They are never worse than its default.

    Args:
      function, arguments: see `capture`.
      target: a TPU generation, or a topology of one, such as `v5e:2x2`.
      minutes: time for all steps.
      solver: a solver of docs/solvers.md.
      objective: `robust`, `msa` or `cycles`; None for `robust`. Unless it is `msa`, options are kept only if the
        compiler has reported their cycles.
      seed: seed of solver and translation.
      workers: processes that search and translate in parallel, each with its own seed.
      flags_only: use flags alone, which name nothing in the program; they mostly gain less. Nothing is mapped, so
        `solver` and `workers` have no effect.
      scoped_memory: first look for the best size of scoped memory, the part of fast memory that the code generator
        keeps for itself, by `cycles`. Takes up to five compilations more, in half of the time at most.
      python: interpreter with jax and libtpu; None for this one if it has libtpu, else one that is made once and kept.
      jax: version of jax in the interpreter that is made, with the libtpu that pip picks for it; None for the versions
        that this package was tested with.
      compiler_options: options that the function is compiled with anyway; they are among those returned. None for none.
      devices: for the file of a module with several partitions: the order in which the mesh has the devices,
        `[d.id for d in mesh.devices.flat]`; `"make_mesh"` if `jax.make_mesh` made it; empty for 0, 1, 2, ...
      output: file for the options, .json, or .flags for `LIBTPU_INIT_ARGS=--flagfile=FILE`; None for none.
      program_output: file for the program, .json.gz; None for none.
      progress: called with one line at a time; prints on standard error by default.

    Returns:
      The options, and the latencies that the compiler confirmed.

    Raises:
      UserError: an argument cannot be used, the function cannot be compiled, or there is no time to learn the cycles of
        any options although the objective is not `msa`; the message says how to fix it.
      FormatError: the compiler's output is not understood.
    """
    from ...env.capture.environment import check_interpreter, find_interpreter, interpreter_path
    from ...env.capture.module_file import UNNAMED
    from ...env.errors import UserError
    from ...env.physics.objective import ROBUST, check_objective
    from ...env.program.target import find_target
    from ...env.storage.destination import check_destination
    from ...roundtrip.options import check_base
    from ...roundtrip.scoped_memory import check_scoped_memory
    from ...roundtrip.tune import tune as run
    from ..run.workers import check_workers
    from ..start.solving import DECODES, compile_solvers, known
    from ..terminal.compiling import Compiling
    from .function import check_function, read_function

    if seed < 0:
        raise UserError(f"--seed {seed}: give 0 or more")
    check_workers(workers)
    if not minutes > 0:
        raise UserError(f"--minutes {minutes:g}: there is no time; give more than 0")
    if objective is not None:
        check_objective(objective)
    find_target(target)
    check_base(compiler_options or {})
    check_destination(output, "-o")
    check_destination(program_output, "--program-output")
    check_scoped_memory(scoped_memory, objective or ROBUST, compiler_options or {})
    solvers = _solvers()
    known(solver, solvers)
    interpreter = None if python is None else interpreter_path(python)
    check_interpreter(interpreter, jax)
    lowered = check_function(function, arguments, interpreter, devices)
    interpreter = find_interpreter(interpreter, jax, progress)
    read = read_function(function, lowered, interpreter, target, devices, progress)
    if not (read.named or flags_only):
        raise UserError(f"{function}: {UNNAMED}, or flags that name nothing (--flags-only)")
    with Compiling() as compiling:
        compile_solvers(compiling, solvers, *([] if flags_only else [solver]), DECODES)
    outcome = run(
        read.reference,
        target,
        minutes,
        interpreter,
        solver=solver,
        solvers=solvers,
        objective=objective,
        seed=seed,
        workers=workers,
        flags_only=flags_only,
        scoped_memory=scoped_memory,
        search=None if workers == 1 else _search(solver, workers),
        program_output=None if program_output is None else Path(program_output),
        module=read.module,
        named=read.named,
        base=compiler_options,
        progress=progress,
    )
    given = {
        "function": str(function) if isinstance(function, str | Path) else read.reference,
        "target": target,
        "solver": solver,
        "seed": seed,
        "minutes": minutes,
        "workers": workers,
        "flags_only": flags_only,
        "compiler_options": dict(compiler_options or {}),
        "program_file": None if program_output is None else str(program_output),
    }
    tuned = _tuned(outcome, given)
    if output is not None:
        tuned.save(output)
    return tuned


def _solvers() -> "Solvers":
    from ...solvers.solve import SOLVERS
    from ..run.guided import learned_solvers

    return {**learned_solvers(), **SOLVERS}


def _search(solver: str, workers: int) -> "Search":
    """Returns a search that maps a program in several processes."""
    from ..run.workers import Request, solve_with_workers

    def search(
        program: "Program", objective: str, budget: "Budget", seed: int, crossable: "NDArray[np.bool_]"
    ) -> "Solution":
        request = Request(
            solver,
            objective,
            budget,
            seed,
            policy=None,
            placebo=None,
            repack=True,
            crossable=tuple(crossable.nonzero()[0].tolist()),
        )
        return solve_with_workers(program, request, workers)

    return search


def _tuned(outcome: "Outcome", given: dict[str, Any]) -> Tuned:
    from ...roundtrip.comparison import flags_us
    from ..terminal.confirmation_report import report

    confirmation = outcome.confirmation
    options = {**outcome.source.options, **confirmation.options}
    found = report(confirmation, outcome.wanted, outcome.missing, outcome.told_only, outcome.sizes) | {
        **given,
        "objective": outcome.objective,
        "search_objective": outcome.objective,
        "flags_us": flags_us(confirmation.program, outcome.objective),
        "decodes": outcome.decodes,
        "seconds": outcome.seconds,
        "versions": outcome.versions,
        "options": options,
    }
    return Tuned(
        options=options,
        program=confirmation.program,
        mapping=confirmation.mapping,
        default_us=found["default_us"],
        promised_us=found["promised_us"],
        confirmed_us=found["confirmed_us"],
        flags_us=found["flags_us"],
        gain_percent={model: gain["confirmed_percent"] for model, gain in found["gain"].items()},
        report=found,
    )
