"""`bound`: proves a lower bound on the latency of every mapping, and keeps the best mapping found."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.shown import Shown

if TYPE_CHECKING:
    from rich.table import Table

    from ...env.bounds.bound import Bound, Report
    from ...env.bounds.solve import Stop
    from ...env.program.mapping import Mapping
    from ...env.program.program import Program
    from ..terminal.figures import LatencyRow

SECONDS = 60.0
SCOPES = {
    "legal": "all legal mappings",
    "unreplaced": "mappings that replace no instruction",
    "game": "mappings that the game can play",
}


@dataclass(frozen=True, eq=False, repr=False)
class Bounded(Shown):
    """A lower bound on the latency of every mapping, and the best mapping found.

    Attributes:
      program: the program.
      objective: what latencies are judged by.
      scope: the mappings that the bound covers: `legal`, `unreplaced` or `game`.
      mapping: the best mapping found; it verifies.
      of_production: ratios to XLA's own mapping, by the objective: `floor`, `relaxation`, `integer`, `bound`, `found`
        and `best`; None where there is none.
      gap: the most that another mapping can save, as a share of the best mapping's latency.
      proved: whether the best mapping is proved optimal to within 0.1 %.
      latency_us: latency of the best mapping in microseconds, by cost model.
      seconds: time spent.
      found: all figures, as the search left them; its seconds are the judge's.
    """

    program: "Program"
    objective: str
    scope: str
    mapping: "Mapping"
    of_production: dict[str, float | None]
    gap: float
    proved: bool
    latency_us: dict[str, float | None]
    seconds: float
    found: "Bound"

    def save(self, path: str | Path) -> None:
        """Writes the best mapping as a file. Raises UserError if it cannot be written."""
        from ...env.program.mapping_file import write_mapping
        from ...env.storage.destination import check_destination

        check_destination(path)
        write_mapping(self.mapping, self.program, path)

    def rows(self) -> "Iterator[LatencyRow]":
        """Yields the figures of the table: microseconds where a cost model counts them, and ratios."""
        from ...env.physics.cost import MODELS
        from ..terminal.figures import LatencyRow

        found = self.found

        def row(name: str, key: str, seconds: float | None, us: dict[str, float | None] | None = None) -> "LatencyRow":
            judged = {self.objective: None if seconds is None else seconds * 1e6} if self.objective in MODELS else {}
            return LatencyRow(name, us or judged, self.of_production[key])

        yield row("floor (each instruction at its fastest)", "floor", found.floor_s)
        yield row("linear relaxation, certified", "relaxation", found.relaxation_s)
        yield row("mixed-integer program, dual value", "integer", found.integer_s)
        yield row("bound: no mapping takes less", "bound", found.bound_s)
        yield row("mapping made from the solutions", "found", found.found_s)
        if self.program.production is not None:
            yield row("XLA's own mapping", "production", found.production_s, self._us(self.program.production))
        yield row(f"best: {self.verdict()}", "best", found.mapping_s, self.latency_us)

    def verdict(self) -> str:
        """Returns how near the best mapping is to the bound, in words."""
        return "proved to be optimal" if self.proved else f"at most {self.gap:.2%} from optimal"

    def _us(self, mapping: "Mapping") -> dict[str, float | None]:
        from ...env.physics.objective import latencies

        return {m: None if s is None else s * 1e6 for m, s in latencies(self.program, mapping).items()}

    def tables(self) -> "Iterator[Table]":
        """Yields the bounds and the best mapping."""
        from ..terminal.figures import latency_table

        table = latency_table(f"{self.program.name}: {SCOPES[self.scope]}; objective {self.objective}", [*self.rows()])
        table.columns[0].header = ""
        yield table

    def lines(self) -> Iterator[str]:
        """Yields what ended the search, and what the bound leaves out."""
        if self.found.stopped:
            yield "It was stopped before its time: what it shows holds; with more seconds the bound may be tighter."
        elif self.found.cut_short:
            yield "The limit of time ended it: with more seconds the bound may be tighter."
        yield (
            "Dropped, so that it stays a bound: offsets and alignment, the order of copies, limits on copies in "
            "flight, and what docs/bounds.md lists."
        )

    def __repr__(self) -> str:
        """Returns a one-line summary."""
        return f"Bounded({self.program.name!r}: {self.verdict()})"

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of docs/json.md."""
        found = self.found

        def us(seconds: float | None) -> float | None:
            return None if seconds is None else seconds * 1e6

        return {
            "program": self.program.name,
            "program_sha256": self.program.sha256,
            "objective": found.objective,
            "scope": found.scope,
            "floor": us(found.floor_s),
            "relaxation": us(found.relaxation_s),
            "integer": us(found.integer_s),
            "bound": us(found.bound_s),
            "bound_proved": found.proved,
            "best": us(found.mapping_s),
            "found": us(found.found_s),
            "production": us(found.production_s),
            "of_production": self.of_production,
            "best_model_us": self.latency_us,
            "gap": found.gap,
            "optimal": found.optimal,
            "cut_short": found.cut_short,
            "stopped": found.stopped,
            "seconds": found.seconds,
            "columns": found.size[0],
            "rows": found.size[1],
            "integers": found.size[2],
        }


def bound(
    program: "Program | str | Path",
    *,
    objective: str | None = None,
    seconds: float = SECONDS,
    scope: str = "legal",
    output: str | Path | None = None,
    report: "Report | None" = None,
) -> Bounded:
    """Proves a lower bound on the latency of every legal mapping of a program: no mapping is faster.

    Args:
      program: a program, the name of a workload, or the path of a program file.
      objective: `robust`, `msa` or `cycles`; None for `robust` where the program has a cycle table, else `msa`.
      seconds: approximate time limit. Ctrl-C also ends the search, with the results so far.
      scope: `legal`: all mappings that verify; `unreplaced`: those in which no copy replaces an instruction; `game`:
        those that the game can play.
      output: file for the best mapping, .json.gz; None for none.
      report: called with the name of a stage and the bound so far.

    Returns:
      The bound, and the best mapping found.

    Raises:
      UserError: an argument cannot be used; the message says how to fix it.
    """
    begin = prepare(program, objective=objective, seconds=seconds, scope=scope, output=output)
    return begin(report, None)


def prepare(
    program: "Program | str | Path",
    *,
    objective: str | None,
    seconds: float,
    scope: str,
    output: str | Path | None,
) -> "Callable[[Report | None, Stop | None], Bounded]":
    """Checks the arguments of `bound` and compiles what it calls; returns the search itself, to be called.

    Args:
      program, objective, seconds, scope, output: see `bound`.

    Returns:
      A function of `report` (see `bound`) and of `stop`, asked often: the search ends once `stop` returns True.

    Raises:
      UserError: an argument cannot be used.
    """
    from ...env.bounds.bound import bound as run_search
    from ...env.errors import UserError
    from ...env.physics.objective import resolve
    from ...env.program.mapping_file import write_mapping
    from ...env.storage.destination import check_destination
    from ...env.suggestion import unknown
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from .load import load

    if scope not in SCOPES:
        raise UserError(unknown("scope", scope, SCOPES))
    if not seconds > 0:
        raise UserError(f"--seconds {seconds:g}: a bound needs time; give more than 0")
    check_destination(output, "-o")
    loaded = load(program)
    resolve(loaded, objective)
    compile_kernels(needs.BOUND)

    def search(report: "Report | None", stop: "Stop | None") -> Bounded:
        found = run_search(loaded, objective, seconds, scope, report=report or (lambda stage, found: None), stop=stop)
        if output is not None:
            write_mapping(found.mapping, loaded, output)
        return _bounded(loaded, found)

    return search


def _bounded(program: "Program", found: "Bound") -> Bounded:
    from ...env.physics.objective import latencies

    by_name = {
        "floor": found.floor_s,
        "relaxation": found.relaxation_s,
        "integer": found.integer_s,
        "bound": found.bound_s,
        "found": found.found_s,
        "best": found.mapping_s,
        "production": found.production_s,
    }
    whole = found.production_s
    return Bounded(
        program=program,
        objective=found.objective,
        scope=found.scope,
        mapping=found.mapping,
        of_production={name: None if s is None or not whole else s / whole for name, s in by_name.items()},
        gap=found.gap,
        proved=found.proved,
        latency_us={m: None if s is None else s * 1e6 for m, s in latencies(program, found.mapping).items()},
        seconds=found.seconds,
        found=found,
    )
