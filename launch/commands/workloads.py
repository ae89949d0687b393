"""`mallocmuzero workloads`: the benchmark programs and their latencies."""

import argparse
from typing import TYPE_CHECKING, Any

from ..json_output import add_json_option, write_json

if TYPE_CHECKING:
    from ...env.program import Program


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "workloads",
        help="list the benchmark programs",
        description="Lists the benchmark programs: decisions, and latencies of reference mappings in microseconds.",
    )
    parser.add_argument("--split", metavar="S", help="only those of this split")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env import workloads
    from ...env.errors import UserError

    if arguments.split is not None and arguments.split not in workloads.SPLITS:
        raise UserError(f"no split is called {arguments.split!r}; the splits are {', '.join(workloads.SPLITS)}")
    names = [name for name in workloads.names() if arguments.split in (None, workloads.split(name))]
    entries = [describe(workloads.load(name), workloads.split(name)) for name in names]
    if arguments.json is not None:
        write_json(entries, arguments.json)
    if arguments.json != "-":
        _print_table(entries)
    return 0


def describe(program: "Program", split: str | None) -> dict[str, Any]:
    """Returns one entry of the JSON list: docs/json.md."""
    from ...env.cost import MODELS
    from ...env.game import MallocGame, play_line

    game = MallocGame(program)
    play_line(game, [])
    return {
        "name": program.name,
        "family": program.family,
        "split": split,
        "target": program.target.name,
        "instructions": program.num_instructions,
        "buffers": program.num_buffers,
        "decisions": game.decisions,
        "latency_us": {model: latencies_us(program, model) for model in MODELS},
    }


def latencies_us(program: "Program", model: str) -> dict[str, float | None]:
    """Returns the reference latencies of a program in microseconds, by what they are of; all None without a model."""
    from ...env.cost import all_hbm_latency, available_models, floor_latency
    from ...env.simulate import simulate

    keys = ("all_hbm", "production", "production_cold", "production_waits", "floor")
    latencies: dict[str, float | None] = dict.fromkeys(keys)
    if model not in available_models(program):
        return latencies
    latencies["all_hbm"] = all_hbm_latency(program, program.target, model) * 1e6
    latencies["floor"] = floor_latency(program, program.target, model) * 1e6
    if program.production is not None:
        steady = simulate(program, program.target, program.production, model, "steady")
        cold = simulate(program, program.target, program.production, model, "cold")
        latencies["production"] = steady.latency_s * 1e6
        latencies["production_cold"] = cold.latency_s * 1e6
        latencies["production_waits"] = steady.waited_s * 1e6
    return latencies


def _print_table(entries: list[dict[str, Any]]) -> None:
    from rich.table import Table

    from ..console import stdout_console

    table = Table(title="Workloads (latency in us, cost model msa)")
    for heading in ("name", "split", "target"):
        table.add_column(heading, no_wrap=True)
    for heading in ("instr.", "buffers", "decisions", "all HBM", "production", "cold", "waits", "floor"):
        table.add_column(heading, justify="right", no_wrap=True)
    for entry in entries:
        latency = entry["latency_us"]["msa"]
        figures = [latency[key] for key in ("all_hbm", "production", "production_cold", "production_waits", "floor")]
        table.add_row(
            entry["name"],
            entry["split"],
            entry["target"],
            *(str(entry[key]) for key in ("instructions", "buffers", "decisions")),
            *("-" if figure is None else f"{figure:.1f}" for figure in figures),
        )
    stdout_console().print(table)
