"""Makes one program of the corpus: draws the architecture of a seed, compiles it, keeps the program if it is fit."""

import re
import tempfile
from pathlib import Path
from typing import Any

from ...capture.capture import capture
from ...capture.complete import complete
from ...errors import FormatError, UserError
from ...program.live import live_pressure
from ...program.program import Program
from ...program.program_file import read_program
from ...program.target import find_target
from ...storage.atomic import write_atomically
from .. import MODELS_PARENT, corpus_workload
from ..models.generated.architecture import Architecture
from ..models.generated.drawing import draw
from .manifest import Manifest, part_of

# Programs outside these ranges have nothing to decide, or are too rare in practice for a place in the corpus.
ACCESSES = (40, 6000)
PRESSURE = (0.2, 12.0)
LARGEST_FILE_BYTES = 400 * 2**10
# Compilations to the end besides the default: everything in HBM, and two placements in random order.
PASSES = 3
# Messages name the folder of a compilation, which is gone.
_TEMPORARY = re.compile(rf"{re.escape(tempfile.gettempdir())}/\S*?/default[:/]\s*")


class UnfitError(UserError):
    """A program that is whole, but not wanted in the corpus."""


def make(manifest: Manifest, seed: int, python: Path, time_limit_s: float) -> str:
    """Makes the program of a seed, or notes why there is none; returns one line about it.

    Args:
      manifest: gets the entry.
      seed: of the architecture.
      python: interpreter with jax and libtpu.
      time_limit_s: seconds after which the compilation is given up.
    """
    drawn = draw(seed)
    try:
        entry = _captured(drawn, python, time_limit_s)
    except (UserError, FormatError) as error:
        reason = _TEMPORARY.sub("", str(error))
        fit = not isinstance(error, UnfitError)
        manifest.leave_out({"seed": seed, "description": drawn.description, "reason": reason, "final": not fit})
        return f"left out: {reason}"
    manifest.add(entry)
    return f"{entry['name']}: {entry['accesses']} accesses, pressure {entry['pressure']}"


def add_cycles(manifest: Manifest, seed: int, python: Path, time_limit_s: float, passes: int = PASSES) -> str:
    """Captures a program of the corpus again, to the end, with a cycle table; returns one line about it.

    If that fails, the program stays as it is.

    Args:
      manifest: has the program, and gets its new entry.
      seed: of the architecture.
      python: interpreter with jax and libtpu.
      time_limit_s: seconds after which one compilation is given up.
      passes: see `capture`.
    """
    try:
        entry = _captured(draw(seed), python, time_limit_s, passes)
    except (UserError, FormatError) as error:
        return f"stays without cycles: {_TEMPORARY.sub('', str(error))}"
    manifest.add(entry)
    return f"{entry['name']}: cycles"


def complete_file(manifest: Manifest, seed: int, python: Path) -> str:
    """Adds what the program file of a seed lacks; returns in words what was added or what went wrong, or nothing.

    Args:
      manifest: has the program; its entry gets the hash, which may change.
      seed: of the architecture.
      python: interpreter with jax and libtpu.
    """
    entry = manifest.programs[seed]
    workload = corpus_workload(entry)
    try:
        topology = find_target(workload.target)[1]
        added = complete(
            workload.path, workload.reference, topology, python, working_folder=MODELS_PARENT, with_module=False
        )
    except (UserError, FormatError) as error:
        return f"stays as it is: {_TEMPORARY.sub('', str(error))}"
    if not added:
        return ""
    manifest.add({**entry, "sha256": read_program(workload.path).sha256})
    return " and ".join(added)


def _captured(drawn: Architecture, python: Path, time_limit_s: float, passes: int = 0) -> dict[str, Any]:
    """Captures the program into the corpus and returns its entry of the manifest.

    Raises:
      UserError: it cannot be compiled, XLA's mapping cannot be read back, or it is not fit (`UnfitError`).
      FormatError: capture does not understand the compiler's output.
    """
    entry: dict[str, Any] = {
        "name": f"corpus-{drawn.seed:04d}",
        "seed": drawn.seed,
        "kind": drawn.kind,
        "target": drawn.target,
        "part": part_of(drawn.seed),
        "description": drawn.description,
        "cycles": False,
        "sha256": "",
    }
    workload = corpus_workload(entry)
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-corpus-") as folder:
        made = Path(folder) / workload.path.name
        program = capture(
            workload.reference,
            drawn.target,
            made,
            python=python,
            name=workload.name,
            family=workload.family,
            working_folder=MODELS_PARENT,
            time_limit_s=time_limit_s,
            passes=passes,
            grid=False,
            quick=passes == 0,
            with_module=False,
            loop_ends=None,
            progress=lambda line: None,
        )
        _check(program, made.stat().st_size)
        write_atomically(workload.path, made.read_bytes())
    return {
        **entry,
        "cycles": program.cycles is not None,
        "accesses": program.num_accesses,
        "pressure": round(live_pressure(program), 3),
        "sha256": program.sha256,
    }


def _check(program: Program, size: int) -> None:
    """Raises an error if a program is not one for the corpus."""
    lost = program.compiler["inexpressible"]
    if program.production is None or lost:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in lost.items())
        raise UserError(f"XLA's mapping cannot be read back: {reasons}")
    if not ACCESSES[0] <= program.num_accesses <= ACCESSES[1]:
        raise UnfitError(f"{program.num_accesses} accesses, outside {ACCESSES[0]} to {ACCESSES[1]}")
    if not PRESSURE[0] <= live_pressure(program) <= PRESSURE[1]:
        raise UnfitError(f"pressure {live_pressure(program):.2f}, outside {PRESSURE[0]} to {PRESSURE[1]}")
    if size > LARGEST_FILE_BYTES:
        raise UnfitError(f"the file has {size} bytes, more than {LARGEST_FILE_BYTES}")
