"""`mallocmuzero train`: begins a training run, or resumes one."""

import argparse
from pathlib import Path
from typing import Any


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "train",
        help="train an agent",
        description="Trains an agent on programs, then compares it with XLA's production mapping and writes the best "
        "mappings and their pictures to the run directory. Ctrl-C stops and saves; --resume continues.",
    )
    parser.add_argument("--workload", nargs="+", action="extend", metavar="NAME|FILE", help="programs to train on")
    parser.add_argument(
        "--run-dir", required=True, metavar="DIR|URL", help="run directory, where everything is written"
    )
    parser.add_argument(
        "--minutes", type=float, metavar="M", help="limit in training minutes, resumed parts included; by default none"
    )
    parser.add_argument(
        "--steps", type=int, metavar="N", help="limit in learner updates, resumed parts included; by default none"
    )
    parser.add_argument("--topology", metavar="process|ray", help="one process (default), or Ray actors around Reverb")
    parser.add_argument("--address", metavar="auto|HOST:PORT", help="join this Ray cluster instead of starting one")
    parser.add_argument("--actors", type=int, metavar="N", help="self-play actors (topology ray)")
    parser.add_argument(
        "--objective", metavar="O", help="robust (the default where there is a cycle table), msa or cycles"
    )
    parser.add_argument(
        "--game",
        metavar="residency|access",
        help="decisions of the agent: where a buffer stays (default), or each access (the game of the paper)",
    )
    parser.add_argument("--seed", type=int, metavar="K", help="seed of all randomness; by default 0")
    parser.add_argument("--resume", action="store_true", help="continue the run in the run directory")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings as TOML or JSON")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="one setting, e.g. learner.learning_rate=0.0005; may be repeated",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env.errors import UserError
    from ..config.overrides import Overrides
    from ..train.experiment import run_experiment

    overrides = Overrides()
    if arguments.config is not None:
        overrides.add_file(arguments.config)
    for assignment in arguments.set:
        overrides.add_assignment(assignment)
    for option, values in _options(arguments):
        overrides.add(values, option)
    if not arguments.resume and not overrides.has("workloads"):
        raise UserError(
            "there is no workload to train on: name one, such as `--workload resnet50-b128`; `mallocmuzero workloads` "
            "lists them, and a program file of your own will do"
        )
    return run_experiment(arguments.run_dir, overrides, resume=arguments.resume)


def _options(arguments: argparse.Namespace) -> list[tuple[str, dict[str, Any]]]:
    """Returns the given options that stand for a setting, each with its setting."""
    given: dict[str, Any] = {
        "workloads": arguments.workload,
        "minutes": arguments.minutes,
        "steps": arguments.steps,
        "topology": arguments.topology,
        "actors": arguments.actors,
        "seed": arguments.seed,
    }
    options = [
        (f"--{name.removesuffix('s') if name == 'workloads' else name}", {name: value})
        for name, value in given.items()
        if value is not None
    ]
    if arguments.objective is not None:
        options.append(("--objective", {"actor": {"objective": arguments.objective}}))
    if arguments.game is not None:
        options.append(("--game", {"actor": {"decisions": arguments.game}}))
    if arguments.address is not None:
        options.append(("--address", {"ray": {"address": arguments.address}}))
    return options
