"""Trains at full speed for an hour and measures the growth of the memory of every process.

    python -m benchmarks.clusters.soak --seconds 3600 [--config launch/policies/train.toml]

Appends a record per look to docs/results/soak.jsonl, draws a plot beside it, and writes the table of docs/clusters.md.
Repeated after an interruption, it continues the run as a further part; `--fresh` begins again. `--report` only draws
and writes the records.

Memory is the proportional set size (PSS, swapped pages included): private pages, and shared pages divided by the number
of processes that share them. Growth is the slope of the least-squares line over the second half of the longest part,
when programs are compiled and the replay is full, in MiB per hour.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil

from ..common.json_lines import ROOT, Record, append
from ..common.marked_page import fill_marks

RESULTS, PLOT, PAGE = ROOT / "docs/results/soak.jsonl", ROOT / "docs/results/soak.png", ROOT / "docs/clusters.md"
# A replay that is full within minutes, so that it cannot explain later growth.
SETTINGS = {
    "replay.capacity": 4000,
    "schedule.checkpoint_minutes": 5,
    "schedule.evaluate_period": 200,
    "schedule.report_seconds": 5,
}
_ROLES = {
    "ray::ActorWorker": "actor",
    "ray::LearnerWorker": "learner",
    "ray::EvaluatorWorker": "evaluator",
    "reverb.server_process": "replay server",
    "raylet/raylet": "raylet",
    "gcs_server": "gcs server",
}
_OTHERS = "Ray's other processes"
_STOP_TIMEOUT_S = 300.0
# A replay that is largest only after this share of the time may still be growing.
_STILL_FILLING = 0.9


def command(folder: Path, arguments: argparse.Namespace) -> list[str]:
    """Returns the command of the training run, begun or resumed."""
    base = [sys.executable, "-m", "mallocmuzero.launch.cli", "train", "--run-dir", str(folder / "run")]
    if (folder / "run" / "manifest.json").exists():
        return [*base, "--resume"]
    if arguments.config is not None:
        return [*base, "--config", str(arguments.config), "--set", "schedule.report_seconds=5"]
    settings = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    run = ["--topology", "ray", "--actors", str(arguments.actors), "--workload", *arguments.workload]
    return [*base, *run, *settings]


def pss_mib(process: psutil.Process) -> float:
    """Returns the proportional set size in MiB, swapped pages included."""
    text = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return sum(map(int, re.findall(r"^(?:Pss|SwapPss):\s+(\d+) kB", text, re.M))) / 1024


def look(root: psutil.Process) -> dict[str, float]:
    """Returns the memory of the processes of a run in MiB, by role; actors are numbered by age."""
    memory: dict[str, float] = defaultdict(float)
    numbers: dict[str, int] = defaultdict(int)
    children = sorted(root.children(recursive=True), key=lambda process: process.pid)
    for process in (root, *children):
        try:
            words = " ".join(process.cmdline())
            role = next((role for text, role in _ROLES.items() if text in words), _OTHERS)
            if process == root:
                role = "driver"
            elif role in ("actor", "replay server"):
                numbers[role] += 1
                role = f"{role} {numbers[role]}"
            memory[role] += pss_mib(process)
        except (psutil.NoSuchProcess, OSError):
            continue
    return {role: round(mib, 2) for role, mib in memory.items()}


def progress(run: Path) -> dict[str, float | None]:
    """Returns step, moves and segments of the run by its metric file."""
    path = run / "metrics.jsonl"
    if not path.exists():
        return {}
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 65536))
        lines = [line for line in file.read().splitlines()[1:-1] if b'"play/moves"' in line]
    names = {"step": "step", "play/moves": "moves", "replay/size": "segments"}
    last = json.loads(lines[-1]) if lines else {}
    return {short: last.get(name) for name, short in names.items()}


def soak(folder: Path, arguments: argparse.Namespace, part: int, seconds: float) -> None:
    """Trains for `seconds`, and appends a record per look."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "output.txt").open("ab") as output:
        process = subprocess.Popen(
            command(folder, arguments),
            stdout=output,
            stderr=output,
            start_new_session=True,
            # Ray's workers would yield the processors to other programs.
            env={**os.environ, "RAY_worker_niceness": "0"},
        )
    root, begin = psutil.Process(process.pid), time.monotonic()
    try:
        while (elapsed := time.monotonic() - begin) < seconds:
            if process.poll() is not None:
                raise SystemExit(f"the training run ended (status {process.returncode}): {folder / 'output.txt'}")
            record = {"part": part, "seconds": round(elapsed, 1), "mib": look(root), **progress(folder / "run")}
            append(RESULTS, record)
            time.sleep(max(0.0, min(arguments.period, seconds - elapsed)))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()


def longest_part(records: list[Record]) -> list[Record]:
    """Returns the records of the longest part."""
    parts: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        parts[record["part"]].append(record)
    return max(parts.values(), key=lambda looks: looks[-1]["seconds"])


def growth(looks: list[Record], role: str) -> tuple[float, float]:
    """Returns the slope of a role's memory over the second half and its standard error, in MiB per hour."""
    half = looks[-1]["seconds"] / 2
    points = [
        (look["seconds"] / 3600, look["mib"][role]) for look in looks if look["seconds"] >= half and role in look["mib"]
    ]
    if len(points) < 4:
        return float("nan"), float("nan")
    hours, mib = np.array(points).T
    hours = hours - hours.mean()
    slope = float(hours @ mib / (hours @ hours))
    rest = mib - mib.mean() - slope * hours
    return slope, float(np.sqrt(rest @ rest / (len(points) - 2) / (hours @ hours)))


def table(looks: list[Record]) -> list[str]:
    """Returns the table of the page."""
    minutes, last = looks[-1]["seconds"] / 60, looks[-1]
    most = max(look.get("segments") or 0 for look in looks)
    full = next(look["seconds"] / 60 for look in looks if (look.get("segments") or 0) >= most)
    lines = [
        f"{minutes:.0f} minutes, {last.get('step') or 0:,} updates, {last.get('moves') or 0:,} moves; the replay was "
        + ("never full." if full > _STILL_FILLING * minutes else f"full, {most:,} segments, after {full:.0f} minutes."),
        "",
        "| process | MiB at half time | MiB at the end | growth, MiB/h | ± |",
        "|---|--:|--:|--:|--:|",
    ]
    half = next(look for look in looks if look["seconds"] >= last["seconds"] / 2)
    for role in sorted(last["mib"], key=lambda role: (role == _OTHERS, role)):
        slope, error = growth(looks, role)
        before = half["mib"].get(role, float("nan"))
        lines.append(f"| {role} | {before:.0f} | {last['mib'][role]:.0f} | {slope:+.1f} | {error:.1f} |")
    return lines


def draw(looks: list[Record]) -> None:
    """Draws memory over time, with a line per process."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    roles = sorted({role for look in looks for role in look["mib"]})
    for role in roles:
        points = [(look["seconds"] / 60, look["mib"][role]) for look in looks if role in look["mib"]]
        axes.plot(*zip(*points, strict=True), label=role, linewidth=1.2)
    axes.set_xlabel("minutes")
    axes.set_ylabel("proportional set size, MiB")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(PLOT, dpi=110)
    pyplot.close(figure)


def read() -> list[Record]:
    """Returns all records."""
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def report() -> None:
    """Draws the plot and writes the page."""
    looks = longest_part(read())
    draw(looks)
    page = fill_marks(PAGE.read_text(encoding="utf-8"), [("soak", table(looks))], "benchmarks/clusters/soak.py", PAGE)
    PAGE.write_text(page, encoding="utf-8")
    print("\n".join(table(looks)))


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--period", type=float, default=15.0, help="seconds between looks")
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--workload", nargs="+", default=["resnet50-b128"])
    parser.add_argument("--config", type=Path, help="of the training run, in place of the default and --workload")
    parser.add_argument("--folder", type=Path, default=Path("runs/soak"), help="of the training run")
    parser.add_argument("--fresh", action="store_true", help="delete the run and its records first")
    parser.add_argument("--report", action="store_true", help="draw and write the records, and run nothing")
    arguments = parser.parse_args()
    if arguments.fresh:
        shutil.rmtree(arguments.folder, ignore_errors=True)
        RESULTS.unlink(missing_ok=True)
    if not arguments.report:
        for number in (signal.SIGTERM, signal.SIGINT):  # shells make background jobs ignore SIGINT
            signal.signal(number, signal.default_int_handler)
        part = 1 + max((record["part"] for record in read()), default=-1)
        try:
            soak(arguments.folder, arguments, part, arguments.seconds)
        except KeyboardInterrupt:
            print("interrupted; records are kept", file=sys.stderr)
    report()


if __name__ == "__main__":
    main()
