"""Makes the corpus: `python -m mallocmuzero.env.workloads.corpus [--programs N] [--python PATH]`.

Goes through the seeds from 0 on and compiles the architecture that each stands for until memory is assigned, seconds
each, until the manifest has N programs. What is done is not done again, so the command may be ended at any time. With
`--no-loops` it passes over the seeds whose program may have a loop, for a later run to take. With `--again` it also
tries the seeds once more whose program could not be captured, e.g. with a newer reading of loops. With `--cycles N`
programs get a cycle table, the smallest first, until N have one. That takes `--passes` compilations to the end, and one
more: each prices operands in other memories. With `--complete` the files of earlier captures get what they lack, and
nothing else is done.
"""

import argparse
import sys
import time
from itertools import count

from ...capture.environment import interpreter_path, managed_python
from ...errors import UserError
from ..models.generated.drawing import draw
from .make import PASSES, add_cycles, complete_file, make
from .manifest import Manifest, read_manifest


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    parser = argparse.ArgumentParser(prog="corpus", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--programs", type=int, default=400, metavar="N", help="programs in all; by default 400")
    parser.add_argument("--again", action="store_true", help="try the seeds again whose program cannot be captured yet")
    parser.add_argument(
        "--cycles", type=int, default=0, metavar="N", help="then give programs cycles, until N have some"
    )
    parser.add_argument(
        "--passes",
        type=int,
        default=PASSES,
        metavar="N",
        help=f"compilations for a cycle table, besides the default one; by default {PASSES}",
    )
    parser.add_argument(
        "--complete", action="store_true", help="only add to the files of earlier captures what they lack"
    )
    parser.add_argument("--no-loops", action="store_true", help="pass over seeds whose program may have a loop")
    parser.add_argument(
        "--python",
        type=interpreter_path,
        help="interpreter with jax and libtpu; by default one is made, once, and kept",
    )
    parser.add_argument(
        "--time-limit", type=float, default=180.0, metavar="SECONDS", help="of one compilation; by default 180"
    )
    options = parser.parse_args(arguments)
    manifest = read_manifest()
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - begun:7.0f} s] {line}", flush=True)

    try:
        python = options.python or managed_python(say)
    except UserError as error:
        print(f"corpus: {error}", file=sys.stderr)
        return 2
    if options.complete:
        for seed in sorted(manifest.programs):
            added = complete_file(manifest, seed, python)
            if added:
                say(f"seed {seed}: {added}")
        return 0
    if options.again:
        for seed in [seed for seed, entry in manifest.left_out.items() if not entry["final"]]:
            say(f"seed {seed}: {make(manifest, seed, python, options.time_limit)}")
    for seed in count():
        if len(manifest.programs) >= options.programs:
            break
        known = seed in manifest.programs or seed in manifest.left_out
        if not (known or (options.no_loops and draw(seed).loops)):
            say(f"seed {seed}: {make(manifest, seed, python, options.time_limit)}")
    for seed in _smallest_without_cycles(manifest):
        if sum(entry["cycles"] for entry in manifest.programs.values()) >= options.cycles:
            break
        say(f"seed {seed}: {add_cycles(manifest, seed, python, options.time_limit, options.passes)}")
    say(f"{len(manifest.programs)} programs, {len(manifest.left_out)} seeds left out")
    return 0


def _smallest_without_cycles(manifest: Manifest) -> list[int]:
    """Returns the seeds whose program has no cycle table, those of the smallest programs first."""
    lacking = [seed for seed, entry in manifest.programs.items() if not entry["cycles"]]
    return sorted(lacking, key=lambda seed: (manifest.programs[seed]["accesses"], seed))


if __name__ == "__main__":
    raise SystemExit(main())
