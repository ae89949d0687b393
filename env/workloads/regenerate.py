"""Captures committed programs again: `python -m mallocmuzero.env.workloads.regenerate [NAMES ...] [--check]`.

With `--check` nothing is written; the exit status is 1 if a program comes out with another hash.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from ..capture.run import capture
from ..errors import UserError
from . import MODELS_PARENT, Workload, all_names, load, workload


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="regenerate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="workloads; all of them if none is named")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    parser.add_argument("--python", type=Path, help="interpreter of the capture environment")
    options = parser.parse_args(arguments)
    try:
        chosen = [workload(name) for name in options.names or all_names()]
        same = [_regenerate(entry, options.python, options.check) for entry in chosen]
    except UserError as error:
        print(f"regenerate: {error}", file=sys.stderr)
        return 2
    return int(options.check and not all(same))


def _regenerate(entry: Workload, python: Path | None, check: bool) -> bool:
    """Captures one workload; returns whether its hash is the committed one."""
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-regenerate-") as folder:
        output = Path(folder) / "program.json.gz" if check else entry.path
        before = load(entry.name).sha256 if entry.path.exists() else "nothing"
        program = capture(
            entry.reference,
            entry.target,
            output,
            python=python,
            name=entry.name,
            family=entry.family,
            working_folder=MODELS_PARENT,
            progress=lambda line: print(f"{entry.name}: {line}", flush=True),
        )
    same = program.sha256 == before
    print(
        f"{entry.name}: {program.sha256[:16]} {'as committed' if same else f'differs from {before[:16]}'}", flush=True
    )
    return same


if __name__ == "__main__":
    sys.exit(main())
