"""Runs of benchmarks/round_trip/measure.py: where they are, and what they count for."""

from collections.abc import Iterable
from pathlib import Path

from mallocmuzero.env import workloads

from ..common.json_lines import ROOT, Record, read_runs
from ..solvers.references import is_contended

RESULTS = ROOT / "docs" / "results" / "round-trip.jsonl"
TARGETS = ("v5e", "v6e")

# Program and hash of its problem, solver, seconds for solving and for translating.
Key = tuple[str, str, str, float, float]


def key_of(record: Record) -> Key:
    """Returns what tells a run from others."""
    return (
        str(record["program"]),
        str(record["program_sha256"]),
        str(record["solver"]),
        float(record["solve_s"]),
        float(record["translate_s"]),
    )


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key; of several with one key the last."""
    return dict(read_runs(paths, key_of))


def programs() -> list[str]:
    """Returns the contended programs of the benchmark for `TARGETS`, those of fewer instructions first."""
    found = [
        (program.num_instructions, name)
        for name in workloads.names()
        if workloads.workload(name).target in TARGETS and is_contended(program := workloads.load(name))
    ]
    return [name for _, name in sorted(found)]
