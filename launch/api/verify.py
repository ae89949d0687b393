"""`verify`: checks that a mapping is legal, and prices it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..terminal.shown import Shown

if TYPE_CHECKING:
    from rich.table import Table

    from ...env.program.mapping import Mapping
    from ...env.program.program import Program
    from ...env.verifier.violation import Violation


@dataclass(frozen=True, eq=False, repr=False)
class Verified(Shown):
    """The verifier's answer; true if the mapping is legal. Latencies are microseconds, steady, by cost model.

    Attributes:
      program: the program.
      mapping: the mapping.
      violations: the rules that the mapping breaks; empty if it is legal.
      latency_us: the mapping's latency; None where it is not legal, or a model cannot price it.
      of_production: latency relative to XLA's own mapping; None where there is none.
      exact: share of the `cycles` latency, waits aside, that was looked up rather than completed.
    """

    program: "Program"
    mapping: "Mapping"
    violations: "tuple[Violation, ...]"
    latency_us: dict[str, float | None]
    of_production: dict[str, float | None]
    exact: float | None

    def __bool__(self) -> bool:
        """Returns whether the mapping is legal."""
        return not self.violations

    def tables(self) -> "Iterator[Table]":
        """Yields the latency by cost model; nothing if the mapping is not legal."""
        from rich.table import Table

        from ..terminal.figures import percent, us_text

        if not self:
            return
        table = Table(title=f"{self.program.name}: verified; simulated latency, steady")
        table.add_column("cost model", no_wrap=True)
        for heading in ("us", "of production"):
            table.add_column(heading, justify="right", no_wrap=True)
        for model, us in self.latency_us.items():
            table.add_row(model, us_text(us), percent(self.of_production[model]))
        yield table

    def lines(self) -> Iterator[str]:
        """Yields the violations."""
        yield from (str(violation) for violation in self.violations)
        if self.violations:
            yield f"not verified: {len(self.violations)} violation{'s' * (len(self.violations) > 1)}"

    def __repr__(self) -> str:
        """Returns a one-line summary."""
        return f"Verified({self.program.name!r}: {self.summary()})"

    def summary(self) -> str:
        """Returns the latencies, or the number of violations, in one line."""
        from ..terminal.figures import us_text

        if not self:
            return f"not verified: {len(self.violations)} violation{'s' * (len(self.violations) > 1)}"
        parts = []
        for model, value in self.latency_us.items():
            if value is None:
                parts.append(f"{model} cannot price it: no cycle table")
                continue
            ratio = self.of_production[model]
            notes = [model, *([] if ratio is None else [f"{100 * ratio:.2f} % of production"])]
            if model == "cycles" and self.exact is not None:
                notes.append(f"{100 * self.exact:.1f} % looked up")
            parts.append(f"{us_text(value)} us ({', '.join(notes)})")
        return f"verified: {', '.join(parts)}"

    def as_json(self) -> dict[str, Any]:
        """Returns the JSON object of docs/json.md."""
        return {
            "program": self.program.name,
            "verified": bool(self),
            "latency_us": self.latency_us,
            "of_production": self.of_production,
            "exact": self.exact,
            "violations": [
                {
                    "kind": str(violation.kind),
                    "instruction": violation.instruction,
                    "instruction_name": violation.instruction_name,
                    "buffer": violation.buffer,
                    "buffer_name": violation.buffer_name,
                    "message": violation.message,
                }
                for violation in self.violations
            ],
        }


def verify(program: "Program | str | Path", mapping: "Mapping | str | Path") -> Verified:
    """Checks that a mapping is legal, independently of what made it, and simulates it.

    Args:
      program: a program, the name of a workload, or the path of a program file.
      mapping: a mapping, the path of a mapping file, `production` for XLA's own, or `all-hbm`.

    Returns:
      The answer, which is true if the mapping is legal.

    Raises:
      UserError: an argument cannot be used, such as a mapping of another program.
    """
    from ...env.physics.cost import CYCLES, MODELS, exact
    from ...env.physics.objective import latencies
    from ...env.verifier.verify import verify as find_violations
    from ..start import needs
    from ..terminal.compiling import compile_kernels
    from .load import load, load_mapping

    program = load(program)
    mapping = load_mapping(mapping, program)
    compile_kernels(needs.PHYSICS)
    violations = tuple(find_violations(program, program.target, mapping))
    latency_us: dict[str, float | None] = dict.fromkeys(MODELS)
    of_production: dict[str, float | None] = dict.fromkeys(MODELS)
    share = None
    if not violations:
        found = latencies(program, mapping)
        latency_us = {model: None if s is None else s * 1e6 for model, s in found.items()}
        if program.production is not None:
            production = latencies(program, program.production)
            of_production = {m: s / p if s is not None and (p := production[m]) else None for m, s in found.items()}
        if latency_us[CYCLES] is not None:
            share = exact(program, mapping)
    return Verified(program, mapping, violations, latency_us, of_production, share)
