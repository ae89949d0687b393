"""Assembles a `Program` from compilations (pipeline step 5): XLA's production mapping, variants and cycles."""

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..physics.cost import MODELS, available_models
from ..physics.simulator import simulate
from ..program.assignment_facts import ASSIGNMENT, assignment_entry
from ..program.compiler_flags import CompilerOptions
from ..program.cycle_table import BY_TIME
from ..program.kernel_colors import COLORED_FAST, KERNEL_COLORS
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from ..program.variant import Variant
from ..verifier.verify import verify
from ..verifier.violation import Kind
from .buffer_sizes import read_sizes
from .coloring_hints import without_hints
from .compilation_files import BUFFER_SIZES, SCHEDULED_MODULE, UNCOLORED_MODULE, only_file
from .cycle_pairs import CyclePairs
from .extract import Extraction, extract
from .hlo import Instruction, Module, read_module
from .kernel_colors import has_colors, kernels_before
from .log import CompilerLog, read_log
from .logged_facts import logged_facts
from .loops import flatten
from .printed_estimate import estimates_off
from .production import Production, read_production
from .seconds_beside import seconds_beside
from .turn import moved_mappings
from .values import FORWARDING
from .worker import COMPILED_FILE, LOG_FILE

# The number of the fast memory space in layouts, if the log does not give it; 1 for all other targets.
_SPACES = {"v4": 3}


class Assembly:
    """A program in the making: the default compilation, then further compilations of the same function.

    A production mapping that the verifier does not accept is left out; `compiler["inexpressible"]` then gives the
    reasons.

    Attributes:
      pairs: the cycles collected so far.

    Args:
      folder: the files of the default compilation, as `worker.py` leaves them.
      target: the target that the program was compiled for.
      name: name of the workload.
      family: its model family.
      provenance: versions, function and topology of the capture.
      loop_ends: the ends of loops are instructions that move nothing; None: only where XLA's mapping cannot be
        expressed without them.
      like: a program of the same function, which supplies what the compilation does not: the instructions to keep
        although they move nothing, what shares memory, what may be fast, what is split over two cores, and how its
        cycle table is completed.
      pack_overlaps: if stays of a mapping overlap, all its buffers are packed anew, which costs no time in any model.
        Without this, such a mapping counts as misread.

    Raises:
      FormatError: a file of the default compilation is missing, truncated or not what it should be.
      UserError: the program holds instructions that capture does not understand.
    """

    def __init__(
        self,
        folder: Path,
        target: Target,
        name: str,
        family: str,
        *,
        provenance: dict[str, Any] | None = None,
        loop_ends: bool | None = None,
        like: Program | None = None,
        pack_overlaps: bool = False,
    ) -> None:
        self._packed_anew = {Kind.SCOPED.value, *([Kind.OVERLAP.value] if pack_overlaps else [])}
        uncolored = without_hints(read_module(only_file(folder, SCHEDULED_MODULE)))
        module = uncolored.module
        sizes = read_sizes(only_file(folder, BUFFER_SIZES))
        compiled = read_module(only_file(folder, COMPILED_FILE))
        log = read_log(folder / LOG_FILE)
        # Files of one device have no such field.
        origin = (provenance or {}) | ({"partitions": module.partitions} if module.partitions > 1 else {})
        before = _kernels_before(folder, module) if has_colors(module) else {}
        self._schedule = log.schedule
        self._space = log.options.setdefault("alternate_memory_space", _SPACES.get(target.name, 1))

        allowed, split = (None, None) if like is None else (_allowed(like), _split(like))

        def read(idle: Set[str], apart: Set[str] | None) -> Production:
            self._extraction = extract(
                *(log, sizes, target, before),
                uncolored=uncolored,
                idle=idle,
                apart=apart,
                allowed=allowed,
                split=split,
                name=name,
                family=family,
                provenance=origin,
            )
            production = read_production(self._extraction, compiled, log)
            self._production, self._inexpressible = self._verified(production)
            return production

        production = self._first_told(read, _loop_ends(module), loop_ends, like)
        self._compiler = _compiler(self._extraction, production, log)
        program = replace(self._extraction.program, compiler=self._compiler)
        self._compiler["estimates_off"] = estimates_off(program, production.mapping)
        self._variants: list[tuple[CompilerOptions, Mapping | None, dict[str, int]]] = [
            ({}, self._production, self._inexpressible)
        ]
        self._left_out: list[dict[str, Any]] = []
        known = None if like is None else like.cycles
        self.pairs = CyclePairs(self._extraction, BY_TIME if known is None else known.completion)
        counts = self.pairs.add(compiled, self._space)
        self._cycles = {"program": counts["cycles"], "other_instructions": counts["other_cycles"]}
        self._generated = bool(counts["instructions"] or counts["other_cycles"])

    def _first_told(
        self,
        read: Callable[[Set[str], Set[str] | None], Production],
        ends: frozenset[str],
        loop_ends: bool | None,
        like: Program | None,
    ) -> Production:
        """Reads XLA's mapping, with pauses where it has some, or like that of an earlier program."""
        if like is not None:
            return read(_idle_instructions(like), frozenset(like.buffer_names))
        none: frozenset[str] = frozenset()
        first, apart = (none, None) if loop_ends is None else (ends if loop_ends else none, none)
        production = read(first, apart)
        pauses = production.pauses
        attempts: list[tuple[frozenset[str], frozenset[str] | None]] = []
        if loop_ends is None and self._production is None:
            kept = (none, ends, pauses, ends | pauses)
            attempts = [(idle, also_apart) for also_apart in (None, none) for idle in kept]
        elif loop_ends and pauses:
            attempts = [(first | pauses, none)]
        others = [attempt for attempt in dict.fromkeys(attempts) if attempt != (first, apart)]
        for attempt in others:
            production = read(*attempt)
            if self._production is not None:
                return production
        return read(first, apart) if others else production

    def _verified(self, production: Production) -> tuple[Mapping | None, dict[str, int]]:
        program, mapping = self._extraction.program, production.mapping
        violations = Counter(v.kind.value for v in verify(program, program.target, mapping))
        if violations and set(violations) <= self._packed_anew:
            for moved in moved_mappings(program, mapping):
                if not verify(program, program.target, moved):
                    mapping, violations = moved, Counter()
                    break
        inexpressible = Counter(production.inexpressible)
        inexpressible.update({f"violation: {kind}": count for kind, count in violations.items()})
        return None if violations else mapping, dict(sorted(inexpressible.items()))

    @property
    def has_carried_copies(self) -> bool:
        """Whether copies run across the passes of a loop."""
        return bool(self._extraction.values.carried.starts)

    def add_variant(self, options: CompilerOptions, folder: Path) -> Mapping | None:
        """Adds the mapping of a compilation with other options.

        Returns:
          The mapping, or None if a `Mapping` cannot express it or it breaks a rule; the variant then gives the reason.

        Raises:
          FormatError: a file is missing, truncated or not what it should be.
        """
        log = read_log(folder / LOG_FILE)
        if log.schedule != self._schedule:
            self._variants.append((options, None, {"another schedule": 1}))
            return None
        module = read_module(only_file(folder, COMPILED_FILE))
        mapping, inexpressible = self._verified(read_production(self._extraction, module, log))
        self._variants.append((options, mapping, inexpressible))
        return mapping

    def leave_out(self, options: CompilerOptions, reason: str) -> None:
        """Notes that a compilation failed, or was not made."""
        self._left_out.append({"options": options, "reason": reason})

    def add_cycles(self, folder: Path) -> dict[str, int]:
        """Adds the cycles of a compilation that went through code generation; returns the counts of `CyclePairs.add`.

        Raises:
          FormatError: the file is missing, truncated or not what it should be.
        """
        return self.pairs.add(read_module(only_file(folder, COMPILED_FILE)), self._space)

    def unseen(self, mapping: Mapping) -> int:
        """Returns the number of pairs of a mapping that the cycle table lacks."""
        return self.pairs.unseen(mapping)

    def program(self, *, variants: bool = False, cycles: bool = False) -> Program:
        """Returns the program.

        Args:
          variants: add the variants, scored, and the cycle table. Without further compilations both are useless: the
            default compilation alone shows nothing of other placements.
          cycles: add the cycle table alone. The table of the default compilation prices its own mapping, and no other.
        """
        self._compiler["inexpressible"] = self._inexpressible
        if self._generated:
            self._compiler["cycles"] = self._cycles
        program = replace(
            self._extraction.program,
            production=self._production,
            compiler={**self._compiler, "variants_left_out": self._left_out} if variants else self._compiler,
        )
        if variants or cycles:
            table = self.pairs.table()
            program = replace(program, cycles=table if table.num_pairs else None)
        return replace(program, variants=self._scored(program)) if variants else program

    def _scored(self, program: Program) -> tuple[Variant, ...]:
        """Returns the variants with their latencies; only those that are best under an objective keep their mapping."""
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
        keep.discard(0)  # The default's mapping is `production`.
        return tuple(
            Variant(options, latencies[index], inexpressible, mapping if index in keep else None)
            for index, (options, mapping, inexpressible) in enumerate(self._variants)
        )


def _kernels_before(folder: Path, module: Module) -> dict[str, Instruction]:
    """Returns the kernels before the compiler colored them; none where it does not, or the dump was not kept."""
    dumped = any(folder.glob(UNCOLORED_MODULE))
    return kernels_before(module, read_module(only_file(folder, UNCOLORED_MODULE))) if dumped else {}


def _best(values: list[float | None]) -> int:
    """Returns the index of the smallest value, the first of equal ones; 0 if there is none."""
    return min(
        (index for index, value in enumerate(values) if value is not None),
        key=lambda index: values[index] or 0.0,
        default=0,
    )


def _compiler(extraction: Extraction, production: Production, log: CompilerLog) -> dict[str, Any]:
    """Returns the compiler's own figures about its mapping, beside those that were read back."""
    return {
        "estimate_without_copies_s": log.estimates["without"],
        "estimate_with_copies_s": log.estimates["with"],
        "left_out_s": extraction.left_out_s,
        **({"beside_s": beside} if (beside := seconds_beside(extraction, log)) else {}),
        "step_s": production.events.step_s,
        "step_trips": production.events.step_trips,
        "allocated_operands": production.allocated_operands,
        "results_counted_again": production.results_counted_again,
        "reported": dict(sorted(log.counts.items())),
        "read_back": dict(sorted(production.counts.items())),
        "sequence": production.events.sequence,
        "unallocated": production.unallocated,
        "aliased_buffers": extraction.aliased_buffers,
        **({"charges": production.events.charges} if production.events.charges else {}),
        **_kernels(extraction),
        ASSIGNMENT: assignment_entry(logged_facts(extraction, log)),
        **({KERNEL_COLORS: [vars(kernel) for kernel in extraction.colored]} if extraction.colored else {}),
        **({COLORED_FAST: extraction.colored_fast} if extraction.colored_fast else {}),
    }


def _kernels(extraction: Extraction) -> dict[str, int]:
    """Returns the number of kernels of one's own, and of those without a stated cost; nothing if there are none."""
    told = extraction.kernels.values()
    return {"kernels": len(told), "kernels_without_cost": len(told) - sum(told)} if told else {}


def _loop_ends(module: Module) -> frozenset[str]:
    """Returns the tuples that the bodies of loops return."""
    roots = (loop.body.root for loop in flatten(module).whiles)
    return frozenset(root.name for root in roots if root.opcode == "tuple")


def _allowed(program: Program) -> frozenset[str]:
    """Returns the buffers of a program that may be fast."""
    return frozenset(program.buffer_names[buffer] for buffer in np.flatnonzero(program.fast_allowed).tolist())


def _split(program: Program) -> dict[str, int]:
    """Returns the bytes in fast memory of the buffers of a program that are split over two cores."""
    split = np.flatnonzero(program.is_split).tolist()
    return {program.buffer_names[buffer]: int(program.fast_size[buffer]) for buffer in split}


def _idle_instructions(program: Program) -> frozenset[str]:
    """Returns the instructions of a program that move nothing: ends of loops, and pauses between two copies."""
    named = zip(program.instruction_names, program.opcodes, strict=True)
    return frozenset(name for name, opcode in named if opcode in FORWARDING)
