"""`mallocmuzero workloads`: lists the benchmark programs with XLA's latencies and proven bounds."""

import argparse
from typing import TYPE_CHECKING, Any

from ..terminal.json_output import add_json_option, check_json, write_json

if TYPE_CHECKING:
    from ...env.program.program import Program

MICRO = 1e6


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "workloads",
        help="list the benchmark programs",
        description="Lists the benchmark programs: decisions, latencies of XLA's mappings, bounds.",
    )
    parser.add_argument(
        "--split", metavar="S", help="only those of this split: train, validation, heldout, control or corpus"
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env import workloads
    from ..start import needs
    from ..terminal.compiling import compile_kernels

    check_json(arguments)
    names = workloads.names_of(arguments.split)
    compile_kernels(needs.PLAY)
    entries = [
        describe(workloads.load(name), workloads.split(name), workloads.workload(name).part or None) for name in names
    ]
    if arguments.json is not None:
        write_json(entries, arguments.json)
    if arguments.json != "-":
        _print_table(entries)
    return 0


def describe(program: "Program", split: str | None, part: str | None = None) -> dict[str, Any]:
    """Returns one entry of the JSON list (docs/json.md).

    Args:
      program: the program.
      split: its split, or None for a program that is no workload.
      part: its part of the corpus, or None elsewhere.
    """
    from ...env.game.game import MallocGame, play_line
    from ...env.physics.cost import MODELS
    from ...env.workloads.known_bounds import known

    game = MallocGame(program)
    play_line(game, [])
    moved = program.access_bytes.sum()
    served = program.access_bytes[program.production.access_fast].sum() if program.production is not None else None
    best_known = known(program)
    return {
        "name": program.name,
        "family": program.family,
        "split": split,
        "part": part,
        "target": program.target.name,
        "instructions": program.num_instructions,
        "accesses": program.num_accesses,
        "buffers": program.num_buffers,
        "loops": len(program.loop_trips),
        "chips": chips(program),
        "decisions": game.decisions,
        "fast_share": None if served is None or not moved else float(served / moved),
        "latency_us": {model: {**latencies_us(program, model), **_bound(best_known, model, MICRO)} for model in MODELS},
        "robust": {"production_tuned": tuned_ratio(program), **_bound(best_known, "robust", 1.0)},
    }


def chips(program: "Program") -> int:
    """Returns the number of chips that run a program together: all of its topology's if it has several partitions."""
    from math import prod

    if program.provenance.get("partitions", 1) == 1:
        return 1
    return prod(map(int, program.provenance["topology"].partition(":")[2].split("x")))


def latencies_us(program: "Program", model: str) -> dict[str, float | None]:
    """Returns the reference latencies of a program in microseconds, by name; all None if `model` cannot price it."""
    from ...env.physics.cost import all_hbm_latency, available_models, floor_latency
    from ...env.physics.simulator import simulate

    keys = ("all_hbm", "production", "production_cold", "production_waits", "production_tuned", "floor")
    latencies: dict[str, float | None] = dict.fromkeys(keys)
    if model not in available_models(program):
        return latencies
    latencies["all_hbm"] = all_hbm_latency(program, program.target, model) * MICRO
    latencies["floor"] = floor_latency(program, program.target, model) * MICRO
    if program.production is not None:
        steady = simulate(program, program.target, program.production, model, "steady")
        cold = simulate(program, program.target, program.production, model, "cold")
        latencies["production"] = steady.latency_s * MICRO
        latencies["production_cold"] = cold.latency_s * MICRO
        latencies["production_waits"] = steady.waited_s * MICRO
    tuned = [latency for variant in program.variants if (latency := variant.latency_s.get(model)) is not None]
    latencies["production_tuned"] = min(tuned) * MICRO if tuned else None
    return latencies


def tuned_ratio(program: "Program") -> float | None:
    """Returns the tuned production under `robust`: the larger of its two ratios to production; None if not known."""
    from ...env.physics.objective import ROBUST, make_judge, resolve

    if not program.variants or program.production is None or resolve(program) != ROBUST:
        return None
    judge = make_judge(program, ROBUST)
    tuned = judge.tuned()
    return None if tuned is None else judge.ratio(tuned)


def _bound(known: dict[str, Any], objective: str, unit: float) -> dict[str, Any]:
    """Returns the keys of a program's bound and best known mapping under an objective."""
    found = known.get(objective)
    if found is None:
        return {"bound": None, "bound_proved": None, "best_known": None}
    best = found.best
    return {"bound": found.bound * unit, "bound_proved": found.proved, "best_known": best and best * unit}


def headroom(entry: dict[str, Any], objective: str = "robust") -> float | None:
    """Returns the possible gain: 1 - bound / tuned production latency, or None if not known."""
    figures = entry["robust"] if objective == "robust" else entry["latency_us"][objective]
    if figures["bound"] is None or figures["production_tuned"] is None:
        return None
    return max(0.0, float(1.0 - figures["bound"] / figures["production_tuned"]))


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from ..terminal.console import show_table

    table = Table(
        title="Workloads: XLA's own mapping in us, steady; in % of it: tuned (XLA's best flags), bound, floor; "
        "near: % of accessed bytes in fast memory; gain: % possible under robust"
    )
    for heading in ("name", "split", "target"):
        table.add_column(heading, no_wrap=True)
    for heading in ("instr.", "decisions", "near"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in ("msa", "cycles"):
        for heading in (model, "tuned", "bound", "floor"):
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("gain", justify="right", no_wrap=True)
    for entry in entries:
        cells = [entry["name"], entry["split"] or "-", entry["target"]]
        cells += [str(entry["instructions"]), str(entry["decisions"]), _percent(entry["fast_share"], 0)]
        for model in ("msa", "cycles"):
            latency = entry["latency_us"][model]
            production = latency["production"]
            cells.append("-" if production is None else f"{production:.{0 if production >= 1000 else 1}f}")
            for key in ("production_tuned", "bound", "floor"):
                cells.append(_percent(latency[key] / production if latency[key] and production else None))
        table.add_row(*cells, _percent(headroom(entry)))
    show_table(table)


def _percent(share: float | None, digits: int = 1) -> str:
    return "-" if share is None else f"{100 * share:.{digits}f}"
