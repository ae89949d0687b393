"""Records of round trips in docs/results/round-trip.jsonl, and the programs that they are made of."""

from collections.abc import Iterable
from pathlib import Path

from mallocmuzero.env import workloads
from mallocmuzero.launch.commands.workloads import chips

from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..solvers.references import is_contended

RESULTS = ROOT / "docs" / "results" / "round-trip.jsonl"
# Accesses of a long program.
LONG = 5_000

key_of = keyed_by("program", "program_sha256", "solver", "solve_s", "translate_s")


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key; of several with one key the last."""
    return dict(read_runs(paths, key_of))


def programs() -> list[str]:
    """Returns the contended programs for one chip that have both cost models, fewest instructions first."""
    found = []
    for name in workloads.names():
        program = workloads.load(name)
        if chips(program) == 1 and program.cycles is not None and is_contended(program):
            found.append((program.num_instructions, name))
    return [name for _, name in sorted(found)]


def kind_of(name: str) -> str:
    """Returns what sets a program apart from small single-chip ones: `loops`, `4 chips`, `long`; empty if nothing."""
    program = workloads.load(name)
    kinds = ["loops"] * bool(len(program.loop_trips))
    number = chips(program)
    kinds += [f"{number} chips"] * (number > 1) + ["long"] * (program.num_accesses > LONG)
    return ", ".join(kinds)
