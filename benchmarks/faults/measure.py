"""Does faults to a training run at random moments, one after the other, and records its recovery.

    python -m benchmarks.faults.measure [--faults 55] [--seed 0] [--folder DIR]

The run has the topology `ray`, two actors, and a program so small that games, updates and checkpoints are always under
way. It lies on a file system of 64 MiB of its own in DIR; only root can mount it, and without it faults of the kind
`disk` are left out. After each fault the run must go on by itself, or end and go on by `--resume`: with all processes,
with moves and updates, and with a new checkpoint. Appends a record per fault to docs/results/faults.jsonl and skips
faults that are there, so the command may be stopped and repeated.

Then: python -m benchmarks.faults.page
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from mallocmuzero.launch.run.code_version import code_version

from ..common.json_lines import ROOT, append, read_runs
from .kinds import ACTOR, EVALUATOR, FAULTS, LEARNER, RAYLET, REPLAY
from .run import ACTORS, CALL_TIMEOUT_S, Run, Standing, end_all, wait_until

RESULTS = ROOT / "docs" / "results" / "faults.jsonl"
_DISK = "64m"
# A fault comes at most so many seconds after the run was seen to be well.
_LATEST_S = 10.0
_WELL_S = 900.0
# Seconds for the processes of a driver to end after it; Ray's agents look for their raylet now and then.
_GONE_S = 90.0
_SAID_CHARACTERS = 300


def main() -> None:
    """Injects the faults that have no record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=55, help="number of faults, recorded ones included")
    parser.add_argument("--seed", type=int, default=0, help="of kinds and moments")
    parser.add_argument("--folder", type=Path, help="folder of the run; by default a temporary one")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--kinds", nargs="+", choices=sorted(FAULTS), help="only these")
    args = parser.parse_args()
    # SIGTERM exits in order: the run is stopped, and its disk unmounted.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with tempfile.TemporaryDirectory(prefix="mallocmuzero-faults-") as temporary:
        loop(args.folder or Path(temporary), args.results, args.seed, args.faults, args.kinds)


def loop(folder: Path, results: Path, seed: int, count: int, kinds: list[str] | None) -> None:
    """Injects faults until `results` holds `count`."""
    # Resumed runs compile the same functions; the cache spares them that.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder.absolute() / "xla")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    disk = folder / "disk"
    disk.mkdir(parents=True, exist_ok=True)
    own = disk.is_mount() or _mount(disk)
    done = {number for number, _ in read_runs([results], lambda record: int(record["number"]))}
    run = Run(disk / "run", folder / "console.txt")
    try:
        for number in range(1, count + 1):
            kind = kind_of(number, seed, kinds or sorted(FAULTS))
            if number in done or (kind == "disk" and not own):
                continue
            record = {
                "number": number,
                "kind": kind,
                "seed": seed,
                **suffer(run, kind, random.Random(f"{seed}-{number}")),
            }
            append(results, record)
            print(f"{number:3d} {kind:10s} {json.dumps(record)}", flush=True)
    finally:
        if run.alive:
            print(f"stopped with status {run.stop()}; left behind: {end_all(run.family(), _GONE_S)}")
        if own:
            subprocess.run(["umount", "--lazy", str(disk)], check=False)


def kind_of(number: int, seed: int, kinds: list[str]) -> str:
    """Returns the kind of a fault by its number from 1: all kinds in turn, in an order drawn for each turn."""
    turn, place = divmod(number - 1, len(kinds))
    return random.Random(f"{seed}-turn-{turn}").sample(kinds, len(kinds))[place]


def _mount(disk: Path) -> bool:
    if os.geteuid() != 0:
        return False
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "tmpfs", str(disk)]
    return subprocess.run(mount, check=False).returncode == 0


def suffer(run: Run, kind: str, generator: random.Random) -> dict[str, Any]:
    """Injects a fault into a run, started first if it is not alive; returns the record."""
    if not run.alive:
        _get_well(run)
    delay_s = generator.uniform(0, _LATEST_S)
    time.sleep(delay_s)
    fault, before = FAULTS[kind], run.standing()
    log, console = run.log_size(), run.console_size()
    run.look()
    begin = time.monotonic()
    fault.do(run, generator)
    over = time.monotonic()
    resumed_s, status, gone = None, None, begin
    left: list[psutil.Process] = []
    well = False
    hurt = Healing(run, before)
    deadline = begin + _WELL_S + 2 * CALL_TIMEOUT_S
    while not well and time.monotonic() < deadline:
        time.sleep(0.3)
        if not run.alive:
            status, gone, left = run.status, time.monotonic(), [*left, *run.family()]
            resumed_s = round(time.monotonic() - begin, 1)
            run.start()
            hurt = Healing(run, run.standing(), fresh=True)
        well = hurt.well()
    healed = time.monotonic()
    after, lines = run.standing(), run.log_since(log)
    said = [line for line in (*lines, *run.console_since(console)) if any(word in line for word in fault.needs)]
    worse = before.best_us is not None and (after.best_us is None or after.best_us > before.best_us * (1 + 1e-9))
    return {
        "delay_s": round(delay_s, 1),
        "step": before.step,
        "moves": before.moves,
        "well": well,
        "seconds": round(healed - begin, 1),
        "lasted_s": round(over - begin, 1),
        "by": "itself" if resumed_s is None else "resume",
        "status": status,
        "ended_after_s": resumed_s,
        "best_lost": worse,
        "left_behind": end_all(left, max(0.0, gone + _GONE_S - healed)),
        "broken_promises": run.broken_promises()[:5],
        "said": said[0].replace(str(run.path), "RUN_DIR")[:_SAID_CHARACTERS] if said else None,
        "traceback": any("Traceback" in line for line in run.console_since(console)),
        "code": code_version()["commit"],
    }


class Healing:
    """Recovery of a run after a fault.

    A run is well when all its processes live and it has made moves, updates and a checkpoint since the fault, or since
    its new process began to count if it was resumed.
    """

    def __init__(self, run: Run, since: Standing, fresh: bool = False) -> None:
        self._run = run
        self._since: Standing | None = None if fresh else since
        self._log = run.log_size()
        self._checkpoint = since.checkpoint

    def well(self) -> bool:
        """Returns whether the run is well."""
        run = self._run
        if self._since is None:
            # Figures later than the checkpoint are cut off before the log says so.
            if not any("going on from" in line or "starting from" in line for line in run.log_since(self._log)):
                return False
            self._since = run.standing()
        now = run.standing()
        if now.step <= self._since.step or now.moves <= self._since.moves or now.checkpoint <= self._checkpoint:
            return False
        return all(len(run.processes(text)) == count for text, count in WHOLE.items())


WHOLE = {ACTOR: ACTORS, LEARNER: 1, EVALUATOR: 1, REPLAY: 1, RAYLET: 1}


def _get_well(run: Run) -> None:
    """Starts a run and waits until it is well.

    Raises:
      SystemExit: the run ends, or is not well in time.
    """
    before = run.standing()
    started = Healing(run, Standing(max(before.step, 0), max(before.moves, 0), before.best_us, before.checkpoint))
    run.start()
    if not wait_until(lambda: started.well() or not run.alive, _WELL_S) or not run.alive:
        raise SystemExit(f"{run.path}: did not get under way; the last lines: {run.console_since(0)[-5:]}")


if __name__ == "__main__":
    main()
