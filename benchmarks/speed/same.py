"""Compares what two checkouts compute, bit for bit: games of plans, games of a walk, orders decoded, observations.

    python -m benchmarks.speed.same CHECKOUT [WORKLOAD ...] [--decodes 6] [--games 40]

Both play the same random plans and walks and decode the same random orders, under options of XLA's and others, on every
committed program. Prints the programs on which anything differs, and ends with status 1 if there are any.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mallocmuzero.env.game.moves import COPY
from mallocmuzero.env.residency.observation import Observer
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.workloads import load, names
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import production

_ROOT = Path(__file__).resolve().parents[2]
_LONG_ACCESSES = 4000  # of longer programs a third of the work is done


def digests(name: str, games: int, decodes: int) -> dict[str, str]:
    """Returns a digest of each kind of result on one program."""
    program, rng = load(name), np.random.default_rng(0)
    if program.num_accesses > _LONG_ACCESSES:
        games, decodes = games // 3, decodes // 3
    task = Task(program, None, None, Budget(None, 10**9, PROCESSOR), 0)
    accesses = len(task.tables.access)
    plans = [task.play(rng.integers(0, 3, accesses).astype(np.int8)) for _ in range(max(2, games // 8))]
    walk = Walk(task, np.full(accesses, COPY, np.int8))
    walk.step(games, 0.001)
    position = Position(task.plan_game, np.full(accesses, COPY, np.int8))
    found: dict[str, list[Any]] = {
        "plans": plans,
        "walk": [walk.plan, walk.current_s, walk.best_s],
        "observations": list(Observer(position).observe()),
        "decodes": [],
    }
    options = production(program.target)
    for k in range(decodes):
        changed = dataclasses.replace(options, max_overlap=options.max_overlap / (1 + k % 3), retries=1 + k % 4)
        decoder = Decoder(program, program.target, changed)
        priority = None if k == 0 else rng.integers(0, 5, program.num_buffers)
        random = rng.random((2, program.num_accesses))
        wanted = None if k < 2 else np.where(random[0] < 0.2, random[1], -1.0)
        mapping = decoder.decode(priority, wanted)
        found["decodes"] += [mapping.access_fast, mapping.residencies, mapping.copies]
    return {kind: _digest(values) for kind, values in found.items()}


def _digest(values: list[Any]) -> str:
    digest = hashlib.sha256()
    for value in values:
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def _of_checkout(checkout: Path, arguments: argparse.Namespace) -> dict[str, dict[str, str]]:
    """Returns the digests by program of a checkout, computed in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mallocmuzero").symlink_to(checkout.resolve())
        command = [sys.executable, __file__, "--here", "--games", str(arguments.games)]
        command += ["--decodes", str(arguments.decodes), str(checkout), *arguments.workload]
        environment = {**os.environ, "PYTHONPATH": folder}
        said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {row.pop("name"): row for row in map(json.loads, said.splitlines())}


def main() -> int:
    """Compares; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("workload", nargs="*", help="all committed programs without any")
    parser.add_argument("--games", type=int, default=40)
    parser.add_argument("--decodes", type=int, default=6)
    parser.add_argument("--here", action="store_true", help="print the digests of the package that is imported")
    arguments = parser.parse_args()
    if arguments.here:
        for name in arguments.workload or names():
            print(json.dumps({"name": name, **digests(name, arguments.games, arguments.decodes)}), flush=True)
        return 0
    mine, other = _of_checkout(_ROOT, arguments), _of_checkout(arguments.checkout, arguments)
    differ = {name: [kind for kind in row if other[name][kind] != row[kind]] for name, row in mine.items()}
    for name, kinds in differ.items():
        if kinds:
            print(f"{name}: different {', '.join(kinds)}")
    equal = sum(not kinds for kinds in differ.values())
    print(f"{equal} of {len(differ)} programs equal, bit for bit")
    return int(equal < len(differ))


if __name__ == "__main__":
    sys.exit(main())
