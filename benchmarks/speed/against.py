"""Compares the speed of the game with an older checkout's, in one run: docs/results/speed.md.

    python -m benchmarks.speed.against FOLDER [WORKLOAD ...] [--rounds 2] [--seconds 0.3]

Both run in turn, each in processes of its own; the least processor time of all rounds counts. In FOLDER `mallocmuzero`
is the older checkout, or a link to it. This interpreter runs it; it compiles into the user's cache folder first.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from ..common.json_lines import ROOT, append

RESULTS = ROOT / "docs" / "results" / "speed-of-game.jsonl"
WORKLOADS = ("tiny", "resnet50-b128", "convnext-tiny-b32", "lstm-b128-s64-v4", "bert-train-b8")
COUNTS = ("instructions", "decisions")
# Older checkouts have the module elsewhere. Processor time, since other work may run beside this.
_MEASURE = """
import importlib, json, sys, time
try:
    speed = importlib.import_module("benchmarks.speed.game")
except ImportError:
    speed = importlib.import_module("benchmarks.game_speed")
time.perf_counter = time.process_time
print(json.dumps(speed.measure(sys.argv[1], float(sys.argv[2]), None)))
"""


def figures(folder: Path | None, workload: str, seconds: float) -> dict[str, float]:
    """Returns the figures of one program, measured in a process of its own: of the package in `folder`, or this one."""
    environment, root = dict(os.environ), ROOT
    if folder is not None:
        root = folder / "mallocmuzero"
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(root)])
    command = [sys.executable, "-c", _MEASURE, workload, str(seconds)]
    done = subprocess.run(command, env=environment, cwd=root, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def commit(checkout: Path) -> str | None:
    """Returns the commit of a checkout, or None of a folder without one."""
    git = ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(git, capture_output=True, text=True)
    return done.stdout.strip() or None


def main() -> None:
    """Measures, and appends a row for each program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("workload", nargs="*", default=WORKLOADS)
    parser.add_argument("--name", help="of the older checkout; its commit by default")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.3, help="time per figure")
    arguments = parser.parse_args()
    older = arguments.folder.absolute()
    for workload in arguments.workload:
        best: dict[Path | None, dict[str, float]] = {older: {}, None: {}}
        for _ in range(arguments.rounds):
            for folder, known in best.items():
                for name, value in figures(folder, workload, arguments.seconds).items():
                    known[name] = min(value, known.get(name, value))
        row = {"workload": workload, "before": best[older], "after": best[None]}
        append(RESULTS, {**row, "commits": [arguments.name or commit(older / "mallocmuzero"), commit(ROOT)]})
        ratios = {name: round(best[older][name] / value, 2) for name, value in best[None].items() if name not in COUNTS}
        print(f"{workload}: times as fast: {ratios}", flush=True)


if __name__ == "__main__":
    main()
