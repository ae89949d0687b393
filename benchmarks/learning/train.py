"""Trains policies that differ in the number of programs alone (docs/results/learning.md).

    python -m benchmarks.learning.train --folder DIR [--counts 20 100 300] [--updates 1800] [--seeds 1]

Each policy is one file in DIR, COUNT-SEED.policy. One that is there is not made again, and a run that was stopped goes
on, so the command may be stopped and repeated. The training itself is `mallocmuzero train` with the shipped policy's
settings, in one process, where it repeats bit for bit.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from mallocmuzero.env import workloads

from ..common.json_lines import ROOT

CORPUS = "corpus"
RECIPE = ROOT / "launch" / "policies" / "train.toml"
COUNTS = (20, 100, 300)
UPDATES = 1800
# As in the recipe: all, half and a quarter of the fast memory.
_SHARES = ("", "@0.5", "@0.25")


def subset(count: int, seed: int) -> list[str]:
    """Returns the names of `count` programs of the corpus; a larger subset of one seed contains the smaller ones."""
    names = workloads.names_of(CORPUS)
    order = np.random.default_rng(seed).permutation(len(names))
    return sorted(names[k] for k in order[:count])


def policy_file(folder: Path, count: int, seed: int) -> Path:
    """Returns the file of a policy that was trained on `count` programs."""
    return folder / f"{count}-{seed}.policy"


def train(folder: Path, count: int, seed: int, updates: int) -> None:
    """Trains a policy on `count` programs, or goes on with it, and writes its file."""
    run = folder / f"{count}-{seed}-{updates}"
    command = [sys.executable, "-m", "mallocmuzero"]
    if (run / "checkpoints").exists():
        begun = ["--resume"]
    else:
        programs = [name + share for share in _SHARES for name in subset(count, seed)]
        begun = [
            "--config",
            str(RECIPE),
            "--topology",
            "process",
            "--actors",
            "1",
            "--seed",
            str(seed),
            "--workload",
            *programs,
        ]
        # The rate falls over all updates, as it does in the recipe.
        begun += ["--set", f"learner.decay_steps={updates}", "--set", "schedule.evaluate_most=1"]
    subprocess.run([*command, "train", "--run-dir", str(run), "--steps", str(updates), *begun], check=True)
    unfinished = folder / "unfinished.policy"
    subprocess.run([*command, "export", str(run), "-o", str(unfinished)], check=True)
    unfinished.rename(policy_file(folder, count, seed))


def main() -> None:
    """Trains what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--counts", nargs="+", type=int, default=list(COUNTS))
    parser.add_argument("--updates", type=int, default=UPDATES)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for seed in range(arguments.seeds):
        for count in arguments.counts:
            if not policy_file(arguments.folder, count, seed).exists():
                train(arguments.folder, count, seed, arguments.updates)


if __name__ == "__main__":
    main()
