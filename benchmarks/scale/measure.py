"""Measures the costs of the parts of a run, and models throughput by number of actors, for docs/results/scale.md.

    python -m benchmarks.scale.measure

Measures the costs of moves, segments, updates, parameters and calls of the driver (`costs.py`), puts them into a model
(`model.py`), and checks the model with 1 to 32 light actors (`light_workers.py`), which write recorded steps at the
pace of a real actor around the real driver and replay. Records are kept in docs/results/scale.jsonl and measured again
only with `--again`.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from ..common.json_lines import ROOT, Record, append, read_runs
from ..common.marked_page import fill_marks
from .model import Setup, breaks, on_one_machine, throughput, versions_share

RESULTS, PAGE = ROOT / "docs/results/scale.jsonl", ROOT / "docs/results/scale.md"
STEPS = Path("runs/scale-steps.npz")
CHECKED = (1, 2, 4, 8, 16, 32)
MODELLED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
WORKLOAD = "resnet50-b128"
# Updates of a supposed accelerator in the time of one update of a processor.
FASTER = 20.0
_WORDS = {
    "move_s": ("a move of a real actor, search and game", 1e3, "ms"),
    "update_s": ("an update of the learner", 1e3, "ms"),
    "insert_server_s": ("a segment written, the server's part", 1e6, "µs"),
    "insert_client_s": ("a segment written, the actor's part", 1e6, "µs"),
    "insert_bytes": ("a segment written, on the wire", 1e-3, "kB"),
    "sample_server_s": ("a segment drawn, the server's part", 1e6, "µs"),
    "sample_client_s": ("a segment drawn, the learner's part", 1e6, "µs"),
    "sample_bytes": ("a segment drawn, on the wire", 1e-3, "kB"),
    "parameter_bytes": ("a version of the parameters", 1e-6, "MB"),
    "broadcast_s": ("a version of the parameters to a process here, wall time", 1e3, "ms"),
    "call_s": ("a call of the driver (the check with one actor)", 1e3, "ms"),
}


def measure_costs(seconds: float) -> None:
    """Measures and records the costs."""
    from mallocmuzero.launch.config.config import TrainConfig

    from .costs import actor_costs, broadcast_costs, learner_costs, replay_costs
    from .light_workers import load_steps

    config = TrainConfig(workloads=(WORKLOAD,))
    STEPS.parent.mkdir(parents=True, exist_ok=True)
    costs = actor_costs(config, seconds, str(STEPS))
    costs |= learner_costs(config, seconds)
    costs |= replay_costs(config, load_steps(str(STEPS)))
    costs |= broadcast_costs(costs["parameter_bytes"])
    for name, value in costs.items():
        append(RESULTS, {"kind": "cost", "name": name, "value": value})


def check(actors: int, moves_per_s: float, updates_per_s: float, seconds: float) -> None:
    """Trains with light actors and records the figures."""
    command = [sys.executable, "-m", "benchmarks.scale.check", "--actors", str(actors)]
    command += ["--moves-per-s", str(moves_per_s), "--updates-per-s", str(updates_per_s)]
    command += ["--seconds", str(seconds), "--steps", str(STEPS.absolute())]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    if said.returncode:
        raise SystemExit(f"{' '.join(command)} has ended with status {said.returncode}")
    found = json.loads(said.stdout.strip().splitlines()[-1])
    pace = {"actors": actors, "actor_moves_per_s": moves_per_s, "learner_updates_per_s": updates_per_s}
    append(RESULTS, {"kind": "check", **pace, **found, "load": os.getloadavg()[0], "cores": os.cpu_count()})


def read() -> tuple[dict[str, float], dict[int, Record]]:
    """Returns costs by name, and checks by number of actors; of several records the last."""
    costs, checks = {}, {}
    for _, record in read_runs([RESULTS], lambda record: record["kind"]):
        if record["kind"] == "cost":
            costs[record["name"]] = record["value"]
        else:
            checks[record["actors"]] = record
    if 1 in checks:
        costs["call_s"] = checks[1]["call_s"]
    return costs, checks


def tables(costs: dict[str, float], checks: dict[int, Record]) -> list[tuple[str, list[str]]]:
    """Returns the tables of the page."""
    lines = ["| what | costs |", "|---|--:|"]
    lines += [f"| {words} | {costs[name] * scale:,.2f} {unit} |" for name, (words, scale, unit) in _WORDS.items()]
    here = Setup(1 / costs["move_s"], 1 / costs["update_s"])
    fast = Setup(1 / costs["move_s"], FASTER / costs["update_s"])
    four = Setup(1 / costs["move_s"], FASTER / costs["update_s"], servers=4)
    setups = (("CPU", here), (f"{FASTER:.0f} times", fast), (f"{FASTER:.0f} times, 4 servers", four))
    grown = [
        "| actors | " + " | ".join(f"learner {name}: moves/s | limited by | versions" for name, _ in setups) + " |"
    ]
    grown.append("|--:|" + "--:|---|--:|" * len(setups))
    for actors in MODELLED:
        cells = []
        for _, setup in setups:
            rate, limit = throughput(costs, setup, actors)
            cells.append(f"{rate:,.0f} | {limit} | {100 * versions_share(costs, setup, actors):.0f} %")
        grown.append(f"| {actors:,} | " + " | ".join(cells) + " |")
    broken = ["| part | limits from | actors on |", "|---|---|--:|"]
    for name, setup in setups:
        broken += [f"| {part} | learner {name} | {actors:,} |" for part, actors in breaks(costs, setup)]
    seen = [
        "| light actors | model, moves/s | limited by | measured, moves/s | measured / model | processors busy | "
        "driver | replay server | actors held | waiting for the driver |",
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for actors, record in sorted(checks.items()):
        setup = Setup(record["actor_moves_per_s"], record["learner_updates_per_s"])
        rate, limit = on_one_machine(costs, setup, actors, record["cores"])
        shares = ("machine_busy", "driver_share", "server_share", "held_share", "turn_share")
        cells = " | ".join(f"{100 * record[name]:.0f} %" for name in shares)
        seen.append(
            f"| {actors} | {rate:,.0f} | {limit} | {record['moves_per_s']:,.0f} | {record['moves_per_s'] / rate:.2f} "
            f"| {cells} |"
        )
    loads = [record["load"] for record in checks.values() if record["load"] > 2 * record["cores"] + record["actors"]]
    if loads:
        seen += [
            "",
            f"Other programs kept the processors busy meanwhile (load average up to {max(loads):.0f}), so that these "
            "lines say little of the model: `--again` on a quiet machine makes them anew.",
        ]
    return [("costs", lines), ("growth", grown), ("breaks", broken), ("check", seen)]


def main() -> None:
    """Measures what is missing, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="processor or wall time of each measurement")
    parser.add_argument("--actors", type=int, nargs="+", default=list(CHECKED), help="light actors of each check")
    parser.add_argument("--again", action="store_true", help="measure also figures that have a record")
    parser.add_argument("--page", action="store_true", help="only write the page from the records")
    arguments = parser.parse_args()
    costs, checks = read()
    if not arguments.page:
        if arguments.again or "broadcast_s" not in costs or not STEPS.exists():
            measure_costs(arguments.seconds)
            costs, _ = read()
        for actors in arguments.actors:
            if arguments.again or actors not in checks:
                # With enough processors, this learner would keep up with all actors.
                check(actors, 1 / costs["move_s"], FASTER / costs["update_s"], arguments.seconds)
    made = tables(*read())
    PAGE.write_text(
        fill_marks(PAGE.read_text(encoding="utf-8"), made, "benchmarks/scale/measure.py", PAGE), encoding="utf-8"
    )
    print("\n\n".join("\n".join(lines) for _, lines in made))


if __name__ == "__main__":
    main()
