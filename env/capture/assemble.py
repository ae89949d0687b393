"""Turns the folder that one compilation leaves behind into a `Program` with XLA's production mapping."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import FormatError
from ..program import Program
from ..target import Target
from ..verify import verify
from .extract import Extraction, extract, read_sizes
from .hlo import read_module
from .log import CompilerLog, read_log
from .production import Production, read_production

# What the worker leaves in its folder, besides the compiler's dumps.
COMPILED_FILE = "compiled.txt"
LOG_FILE = "log.txt"
BEFORE = "*.after_optimizations_before_buffer_assignment.txt"
ASSIGNMENT = "*.after_optimizations-buffer-assignment.txt"


def assemble(
    folder: Path,
    target: Target,
    name: str,
    family: str,
    provenance: dict[str, Any] | None = None,
    log_path: Path | None = None,
) -> Program:
    """Reads one compilation.

    A production mapping that the verifier does not accept is left out; `compiler["inexpressible"]` then says why.

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
    module = read_module(_only(folder, BEFORE))
    sizes = read_sizes(_only(folder, ASSIGNMENT))
    compiled = read_module(_only(folder, COMPILED_FILE))
    log = read_log(log_path or folder / LOG_FILE)
    extraction = extract(module, log, sizes, target, name=name, family=family, provenance=provenance or {})
    production = read_production(extraction, compiled, log)
    violations = Counter(
        v.kind.value for v in verify(extraction.program, extraction.program.target, production.mapping)
    )
    inexpressible = Counter(production.inexpressible)
    inexpressible.update({f"violation: {kind}": count for kind, count in violations.items()})
    return replace(
        extraction.program,
        production=None if violations else production.mapping,
        compiler={**_compiler(extraction, production, log), "inexpressible": dict(sorted(inexpressible.items()))},
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
