"""`mallocmuzero status`: shows the progress, speed and bottleneck of a run, while it runs and afterwards."""

import argparse
from typing import TYPE_CHECKING, Any

from ..terminal.json_output import add_json_option, check_json, write_json

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

_MOST_PROGRAMS = 12
_COLUMNS = (
    ("msa_us", "msa us"),
    ("cycles_us", "cycles us"),
    ("of_production", "of production"),
    ("flags_of_production", "XLA's best flags"),
)
_CAUSES = {"turn": "the driver", "parameters": "parameters", "saving": "checkpoints"}


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "status",
        help="show the status of a run",
        description="Shows the progress of a run, its best mappings, its speed, the waits of learner and actors, and "
        "its bottleneck. Reads the run directory alone: works at any time, on any machine that sees the folder.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", help="run directory of `mallocmuzero train`, or its URL")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show it live until the run ends, or Ctrl-C; without a terminal, wait for the end and print it once",
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env.errors import UserError
    from ..run.url import is_url, local_run
    from ..status.status import run_status
    from ..status.watch import watch
    from ..terminal.console import stdout_console

    check_json(arguments)
    if arguments.watch:
        if is_url(arguments.run_dir):
            raise UserError("--watch follows a folder; what lies at a URL changes with each checkpoint only")
        if arguments.json is not None:
            raise UserError("--watch shows a status that changes, --json writes one; leave one out")
        watch(stdout_console(), lambda: run_status(arguments.run_dir), _render)
        return 0
    with local_run(arguments.run_dir, small=True) as run_dir:
        status = run_status(run_dir)
    if is_url(arguments.run_dir):
        status |= {"run_dir": arguments.run_dir, "running": None, "pid": None, "host": None}
        status["state"] = "finished" if status["state"] == "finished" else "unknown"
        status["warnings"].append("whether it is running cannot be told from a URL; figures are those of the last copy")
    if arguments.json is not None:
        write_json(status, arguments.json)
    if arguments.json != "-":
        stdout_console().print(_render(status), soft_wrap=True)
    return 0


def _render(status: dict[str, Any]) -> "Group":
    """Returns the display of a status."""
    from rich.console import Group
    from rich.text import Text

    from ..terminal.fitted import Fitted

    parts: list[Any] = [Text(line) for line in _lines(status)]
    if status["best"]:
        parts.append(Fitted(_best_table(status["best"])))
    return Group(*parts, *(Text(f"warning: {warning}") for warning in status["warnings"]))


def _lines(status: dict[str, Any]) -> list[str]:
    rates, blocked, replay, checkpoint = (status[name] for name in ("rates", "blocked", "replay", "checkpoint"))
    who = f", process {status['pid']} on {status['host'] or 'this machine'}" if status["pid"] else ""
    until = [f"{value:,} {name}" for name, value in status["until"].items() if value is not None]
    actors = _count(status["actors"], "actor")
    lines = [
        f"{status['run_dir']}: {status['state']}{who}; topology {status['topology']}, {actors}",
        f"done       {status['step']:,} updates, {status['moves']:,} moves, {status['episodes']:,} games in "
        f"{status['minutes']:.1f} minutes" + (f" (until {' or '.join(until)})" if until else ""),
    ]
    if rates["updates_per_s"] is not None:
        lag = "" if status["policy_lag"] is None else f"; actors play {status['policy_lag']:.1f} updates behind"
        lines.append(f"speed      {rates['updates_per_s']:.2f} updates/s, {rates['moves_per_s'] or 0:.1f} moves/s{lag}")
        lines.append(
            f"waits      learner {100 * blocked['learner_share']:.0f} %, actors {100 * blocked['actors_share']:.0f} % "
            f"of their time; in all {blocked['learner_s']:.0f} s and {blocked['actors_s']:.0f} s"
        )
        others = [
            f"{role} {seconds:.0f} s for {_CAUSES.get(cause, cause)}"
            for role, causes in blocked["by_cause"].items()
            for cause, seconds in causes.items()
            if cause != "replay" and seconds >= 1
        ]
        if others:
            lines.append(f"also       {', '.join(others)}")
    if replay["size"] is not None:
        ratio = (
            "" if replay["samples_per_insert"] is None else f", sampled {replay['samples_per_insert']:.2f} times each"
        )
        lines.append(
            f"replay     {replay['size']:,} of {replay['capacity'] or 0:,} segments{ratio} "
            f"(wanted {replay['samples_per_insert_wanted']})"
        )
    if status["restarts"]:
        lines.append("restarts   " + ", ".join(_count(count, role) for role, count in status["restarts"].items()))
    lines.append(f"limited by {status['limited_by'] or '-'}: {status['why']}")
    if status["metrics_age_s"] is not None:
        lines.append(f"figures    {_seconds(status['metrics_age_s'])} old")
    if status["damaged_checkpoint"] is not None:
        lines.append(f"checkpoint {status['damaged_checkpoint']}: damaged, as a warning says; --resume names a way out")
    elif checkpoint is None:
        lines.append("checkpoint none yet")
    else:
        lines.append(
            f"checkpoint {checkpoint['path']}: update {checkpoint['step']:,}, {_seconds(checkpoint['age_s'])} old"
            + ("" if checkpoint["with_replay"] else ", without the replay's content")
        )
        lines.append(f"parameters {status['parameters_sha256'] or 'not hashed by the version that wrote them'}")
    return lines


def _best_table(best: dict[str, dict[str, Any]]) -> "Table":
    from rich.table import Table

    known = {key for entry in best.values() for key, value in entry.items() if value is not None}
    columns = [column for column in _COLUMNS if column[0] in known]
    table = Table(title="Best mappings (of production by the run's objective)")
    table.add_column("program", no_wrap=True)
    for _, heading in columns:
        table.add_column(heading, justify="right", no_wrap=True)

    def rank(name: str) -> float:
        ratio = best[name]["of_production"]
        return float("inf") if ratio is None else ratio

    for name in sorted(best, key=rank)[:_MOST_PROGRAMS]:
        table.add_row(name, *(_cell(key, best[name].get(key)) for key, _ in columns))
    if len(best) > _MOST_PROGRAMS:
        table.caption = f"and {len(best) - _MOST_PROGRAMS} more: --json"
    return table


def _cell(key: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if key.endswith("_us") else f"{100 * value:.2f} %"


def _count(count: int, name: str) -> str:
    return f"{count} {name}" + ("" if count == 1 else "s")


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
