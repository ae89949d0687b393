"""Records of round trips in docs/results/round-trip.jsonl, and the programs that they are made of."""

from collections.abc import Iterable
from pathlib import Path

from mallocmuzero.env import workloads

from ..common.json_lines import ROOT, Key, Record, keyed_by, read_runs
from ..solvers.references import is_contended

RESULTS = ROOT / "docs" / "results" / "round-trip.jsonl"
TARGETS = ("v5e", "v6e")

key_of = keyed_by("program", "program_sha256", "solver", "solve_s", "translate_s")


def read(paths: Iterable[Path]) -> dict[Key, Record]:
    """Returns the runs of some files by key; of several with one key the last."""
    return dict(read_runs(paths, key_of))


def programs() -> list[str]:
    """Returns the contended programs for `TARGETS`, fewest instructions first."""
    found = [
        (program.num_instructions, name)
        for name in workloads.names()
        if workloads.workload(name).target in TARGETS and is_contended(program := workloads.load(name))
    ]
    return [name for _, name in sorted(found)]
