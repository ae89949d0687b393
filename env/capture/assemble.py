"""Turns what compilations leave behind into a `Program` with XLA's production mapping, its variants and its cycles."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..physics.cost import MODELS, available_models
from ..physics.simulator import simulate
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from ..program.variant import Variant
from ..verifier.verify import verify
from .archive import ASSIGNMENT, BEFORE
from .cycle_pairs import CyclePairs
from .extract import Extraction, extract, read_sizes
from .hlo import read_module
from .log import CompilerLog, read_log
from .plan import Options
from .production import Production, read_production
from .worker import COMPILED_FILE, LOG_FILE

# The number of the fast memory space in layouts, where no log says it.
_SPACES = {"v4": 3}


def assemble(
    folder: Path,
    target: Target,
    name: str,
    family: str,
    provenance: dict[str, Any] | None = None,
    log_path: Path | None = None,
) -> Program:
    """Reads one compilation; see `Assembly`.

    Args:
      folder: dumps and compiled text, as `worker.py` leaves them.
      target: what the program was compiled for.
      name: name of the workload.
      family: its model family.
      provenance: where it comes from.
      log_path: the compiler's log, if it is not in the folder.

    Raises:
      FormatError: a file is missing, truncated or not what it should be.
      UserError: the program holds something that capture does not understand.
    """
    return Assembly(folder, target, name, family, provenance, log_path).program()


class Assembly:
    """A program in the making: the default compilation, then whatever other compilations of the same function.

    A production mapping that the verifier does not accept is left out; `compiler["inexpressible"]` then says why.

    Raises:
      FormatError: a file of the default compilation is missing, truncated or not what it should be.
      UserError: the program holds something that capture does not understand.
    """

    def __init__(
        self,
        folder: Path,
        target: Target,
        name: str,
        family: str,
        provenance: dict[str, Any] | None = None,
        log_path: Path | None = None,
    ) -> None:
        module = read_module(_only(folder, BEFORE))
        sizes = read_sizes(_only(folder, ASSIGNMENT))
        compiled = read_module(_only(folder, COMPILED_FILE))
        log = read_log(log_path or folder / LOG_FILE)
        self._extraction = extract(module, log, sizes, target, name=name, family=family, provenance=provenance or {})
        self._schedule = log.schedule
        self._space = log.options.get("alternate_memory_space", _SPACES.get(target.name, 1))
        production = read_production(self._extraction, compiled, log)
        self._production, self._inexpressible = self._verified(production)
        self._compiler = _compiler(self._extraction, production, log)
        self._variants: list[tuple[Options, Mapping | None, dict[str, int]]] = [
            ({}, self._production, self._inexpressible)
        ]
        self._left_out: list[dict[str, Any]] = []
        self.pairs = CyclePairs(self._extraction)
        counts = self.pairs.add(compiled, self._space)
        self._cycles = {"program": counts["cycles"], "other_instructions": counts["other_cycles"]}

    def _verified(self, production: Production) -> tuple[Mapping | None, dict[str, int]]:
        program = self._extraction.program
        violations = Counter(v.kind.value for v in verify(program, program.target, production.mapping))
        inexpressible = Counter(production.inexpressible)
        inexpressible.update({f"violation: {kind}": count for kind, count in violations.items()})
        return None if violations else production.mapping, dict(sorted(inexpressible.items()))

    def add_variant(self, options: Options, folder: Path) -> Mapping | None:
        """Reads the mapping of a compilation with other options back onto the program.

        Returns:
          The mapping, or None where it cannot be told or breaks a rule; the variant then says why.

        Raises:
          FormatError: a file is missing, truncated or not what it should be.
        """
        log = read_log(folder / LOG_FILE)
        if log.schedule != self._schedule:
            self._variants.append((options, None, {"another schedule": 1}))
            return None
        module = read_module(_only(folder, COMPILED_FILE))
        mapping, inexpressible = self._verified(read_production(self._extraction, module, log))
        self._variants.append((options, mapping, inexpressible))
        return mapping

    def leave_out(self, options: Options, reason: str) -> None:
        """Notes that a compilation failed."""
        self._left_out.append({"options": options, "reason": reason})

    def add_cycles(self, folder: Path) -> dict[str, int]:
        """Takes the cycles of a compilation that went through code generation; returns what `CyclePairs.add` does.

        Raises:
          FormatError: the file is missing, truncated or not what it should be.
        """
        return self.pairs.add(read_module(_only(folder, COMPILED_FILE)), self._space)

    def unseen(self, mapping: Mapping) -> int:
        """Returns for how many pairs of row and placement of a mapping the cycle table has no entry yet."""
        return self.pairs.unseen(mapping)

    def program(self, variants: bool = False) -> Program:
        """Returns the program.

        Args:
          variants: with its variants, which are scored here, and its cycle table: one compilation alone makes a
            table that says nothing of other placements.
        """
        self._compiler["inexpressible"] = self._inexpressible
        self._compiler["cycles"] = self._cycles
        program = replace(
            self._extraction.program,
            production=self._production,
            compiler={**self._compiler, "variants_left_out": self._left_out} if variants else self._compiler,
        )
        if not variants:
            return program
        table = self.pairs.table()
        program = replace(program, cycles=table if table.num_pairs else None)
        return replace(program, variants=self._scored(program))

    def _scored(self, program: Program) -> tuple[Variant, ...]:
        """Returns the variants with their latencies; mappings only where they are the best under an objective."""
        models = available_models(program)
        latencies: list[dict[str, float | None]] = [
            {
                model: simulate(program, program.target, mapping, model).latency_s
                if mapping is not None and model in models
                else None
                for model in MODELS
            }
            for _, mapping, _ in self._variants
        ]
        keep: set[int] = set()
        for model in models:
            keep.add(_best([latency[model] for latency in latencies]))
        default = latencies[0]
        if all(default[model] is not None for model in models):
            ratios: list[float | None] = []
            for latency in latencies:
                parts = [(latency[model], default[model]) for model in models]
                ratios.append(None if None in (p for p, _ in parts) else max(a / b for a, b in parts))  # type: ignore[operator]
            keep.add(_best(ratios))
        keep.discard(0)  # the default's is `production`
        return tuple(
            Variant(options, latencies[index], inexpressible, mapping if index in keep else None)
            for index, (options, mapping, inexpressible) in enumerate(self._variants)
        )


def _best(values: list[float | None]) -> int:
    """Returns the number of the smallest value, the first of equal ones; 0 if there is none."""
    return min(
        (index for index, value in enumerate(values) if value is not None),
        key=lambda index: values[index] or 0.0,
        default=0,
    )


def _compiler(extraction: Extraction, production: Production, log: CompilerLog) -> dict[str, Any]:
    """Returns what the compiler says of its own mapping, and what was made of it."""
    return {
        "estimate_without_copies_s": log.estimates["without"],
        "estimate_with_copies_s": log.estimates["with"],
        "left_out_s": extraction.left_out_s,
        "step_s": production.step_s,
        "reported": dict(sorted(log.counts.items())),
        "read_back": dict(sorted(production.counts.items())),
        "sequence": production.sequence,
        "unallocated": production.unallocated,
        "aliased_buffers": extraction.aliased_buffers,
    }


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise FormatError(
            f"{folder}: has {len(found)} files `{pattern}` where one is expected; "
            "the compilation did not finish, or the function compiles more than one program: capture again"
        )
    return found[0]
