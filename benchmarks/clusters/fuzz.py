"""Feeds every reader of files with damaged ones: each must be read, or refused with a clear error, in bounded memory.

    python -m benchmarks.clusters.fuzz --inputs 10000 --seed 0 --record

Prints a table. `--record` appends it to docs/results/fuzz.jsonl and writes the table of docs/clusters.md, summed over
all recorded seeds, so that the inputs of a slow reader may come in several commands. Another exception, or more than
ten seconds of processor time, is a failure: the input and the traceback are kept in `--failures`, and the exit status
is 1.
"""

import argparse
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import jax

from mallocmuzero.env.errors import UserError

from ..common.json_lines import ROOT, append, read_runs
from ..common.marked_page import fill_marks
from .fuzz_targets import Target, targets

RESULTS, PAGE = ROOT / "docs/results/fuzz.jsonl", ROOT / "docs/clusters.md"
MOST_SECONDS = 10.0
_KEPT = 20


@dataclass
class Outcome:
    """Outcome of the inputs of one reader.

    Attributes:
      accepted, refused: inputs read, and inputs refused with a UserError.
      failures: numbers of other exceptions, by kind and place.
      seconds: processor time.
      grown_mib: growth of the peak memory of the process.
    """

    accepted: int = 0
    refused: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    grown_mib: float = 0.0


class Slow(Exception):
    """A reader took too long."""


def fuzz(name: str, inputs: int, seed: int, folder: Path, kept: Path | None) -> Outcome:
    """Feeds one reader with damaged files.

    Args:
      name: name of the reader in `targets`.
      inputs: number of files.
      seed: seed of the damage; equal seeds make equal inputs.
      folder: folder that the files are written to, one after the other.
      kept: folder for inputs that fail, or None.
    """
    target: Target = targets(folder)[name]()
    target_generator = random.Random(f"{name} {seed}")
    outcome = Outcome()
    begin, before_mib = time.process_time(), _most_mib()
    for index in range(inputs):
        target.write(target_generator)
        if index % 1000 == 999:
            jax.clear_caches()  # Accepted networks are traced, and JAX would keep each.
        try:
            with _limited():
                target.read()
            outcome.accepted += 1
        except UserError:
            outcome.refused += 1
        except Exception as error:  # noqa: BLE001 - unforeseen ones are looked for
            place = traceback.extract_tb(error.__traceback__)[-1]
            ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "mallocmuzero" in frame.filename]
            ours = ours or [f for f in traceback.extract_tb(error.__traceback__) if "/benchmarks/" not in f.filename]
            place = ours[-1] if ours else place
            kind = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            outcome.failures[kind] += 1
            if kept is not None and outcome.failures[kind] == 1 and len(outcome.failures) <= _KEPT:
                _keep(kept / f"{name.replace(' ', '-').replace(',', '')}-{seed}-{index}", folder)
    outcome.seconds, outcome.grown_mib = time.process_time() - begin, _most_mib() - before_mib
    return outcome


@contextmanager
def _limited() -> Iterator[None]:
    """Raises Slow after too much processor time."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Slow(f"more than {MOST_SECONDS:.0f} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _keep(place: Path, folder: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    (place / "raised.txt").write_text(traceback.format_exc())


def _most_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def table() -> list[str]:
    """Returns the table of the page: all records; of several with one reader and seed the last."""
    records = dict(read_runs([RESULTS], lambda record: (record["reader"], record["seed"])))
    lines = ["| reader | inputs | read | refused | failed | CPU s |", "|---|--:|--:|--:|--:|--:|"]
    for name in targets(Path()):
        mine = [record for (reader, _), record in records.items() if reader == name]
        sums = [sum(record[field] for record in mine) for field in ("inputs", "accepted", "refused", "failed")]
        seconds = sum(record["seconds"] for record in mine)
        lines.append(f"| {name} | " + " | ".join(f"{count:,}" for count in sums) + f" | {seconds:,.0f} |")
    return lines


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000, help="damaged files per reader")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--reader", action="append", choices=list(targets(Path())), help="by default all")
    parser.add_argument("--record", action="store_true", help="record the outcome and write the page")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"), help="folder for inputs that fail")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'reader':<22} {'inputs':>7} {'accepted':>9} {'refused':>8} {'failed':>7} {'CPU s':>7} {'MiB more':>9}")
    failed = 0
    for name in arguments.reader or targets(Path()):
        with tempfile.TemporaryDirectory() as folder:
            outcome = fuzz(name, arguments.inputs, arguments.seed, Path(folder), arguments.failures)
        failures = sum(outcome.failures.values())
        failed += failures
        print(
            f"{name:<22} {arguments.inputs:>7} {outcome.accepted:>9} {outcome.refused:>8} {failures:>7} "
            f"{outcome.seconds:>7.1f} {outcome.grown_mib:>9.0f}",
            flush=True,
        )
        if arguments.record:
            counts = {"accepted": outcome.accepted, "refused": outcome.refused, "failed": failures}
            named = {"reader": name, "inputs": arguments.inputs, "seed": arguments.seed}
            append(RESULTS, {**named, **counts, "seconds": round(outcome.seconds, 1)})
            page = fill_marks(
                PAGE.read_text(encoding="utf-8"), [("fuzz", table())], "benchmarks/clusters/fuzz.py", PAGE
            )
            PAGE.write_text(page, encoding="utf-8")
        for kind, count in outcome.failures.most_common():
            print(f"    {count} x {kind}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
