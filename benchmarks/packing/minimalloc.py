"""Runs this machine's MiniMalloc on a packing problem, and measures its processor time."""

import resource
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.packing.pack import FEASIBLE, INFEASIBLE, UNDECIDED
from mallocmuzero.env.packing.problem import Packing, collisions


@dataclass(frozen=True)
class Answer:
    """MiniMalloc's answer: `status` as of `Packed`, and processor time in seconds, start and files included."""

    status: str
    seconds: float


def takes(packing: Packing) -> bool:
    """Returns whether MiniMalloc's files can express the problem: no floors, no alignment, one span per item."""
    return packing.alignment == 1 and not packing.floor.any() and len(packing.span_item) == packing.items


def run(program: Path, packing: Packing, seconds: float) -> Answer:
    """Runs MiniMalloc on a problem and checks its packing.

    Args:
      program: its executable.
      packing: a problem that it `takes`.
      seconds: limit on the clock, its `--timeout`.

    Raises:
      UserError: the program cannot be started.
      RuntimeError: it failed, or its packing is wrong.
    """
    lower = packing.span_lower - packing.span_lower.min(initial=0)
    upper = packing.span_upper - packing.span_lower.min(initial=0)
    rows = zip(lower.tolist(), upper.tolist(), packing.size.tolist(), strict=True)
    text = "id,lower,upper,size\n" + "".join(f"{i},{a},{b},{size}\n" for i, (a, b, size) in enumerate(rows))
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.csv", Path(folder) / "found.csv"
        given.write_text(text, encoding="utf-8")
        options = ["--capacity", str(packing.capacity), "--timeout", f"{seconds}s"]
        command = [str(program), "--input", str(given), "--output", str(found), *options]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise UserError(f"--minimalloc {program}: cannot be started ({error.strerror or error})") from error
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode == 0:
            table = np.genfromtxt(found, delimiter=",", names=True, dtype=np.int64)
            wrong = collisions(packing, np.atleast_1d(table["offset"])[np.argsort(np.atleast_1d(table["id"]))])
            if wrong:
                raise RuntimeError(f"{program}: its packing breaks the rules: {wrong[0]}")
            return Answer(FEASIBLE, took)
    if "NOT_FOUND" in done.stderr:
        return Answer(INFEASIBLE, took)
    if "DEADLINE_EXCEEDED" in done.stderr:
        return Answer(UNDECIDED, took)
    raise RuntimeError(f"{program} ended with status {done.returncode}: {done.stderr.strip()}")
