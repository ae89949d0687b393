"""`mallocmuzero export`: writes the policy of a run as one small file."""

import argparse
from pathlib import Path


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "export",
        help="write the policy of a run as one file",
        description="Writes the parameters of a run's last checkpoint, in half precision, with the run's settings, "
        "seed, code version and learning curve, as one file for `solve --solver guided --policy FILE`.",
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", help="run directory of `mallocmuzero train`, or its URL")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="POLICY", help="the file")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command."""
    from ...env.storage.destination import check_destination
    from ..run.policy import export_policy
    from ..run.url import local_run

    check_destination(arguments.output, "-o")
    with local_run(arguments.run_dir) as run_dir:
        info = export_policy(run_dir, arguments.output)
    print(
        f"wrote {arguments.output}: {arguments.output.stat().st_size / 1e6:.1f} MB, "
        f"{info['step']} updates on {len(info['programs'])} programs"
    )
    return 0
