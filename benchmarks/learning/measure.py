"""Measures policies that were trained on different numbers of programs (docs/results/learning.md).

    python -m benchmarks.learning.measure --folder DIR [--split heldout] [--objectives msa robust] [--shares 1 0.5]

DIR is that of `benchmarks.learning.train`. Each policy plays every problem alone, until it ends by itself, and scores
the changes of a position that have been played. A record that is there is not made again, so the command may be
stopped and repeated. `python -m benchmarks.learning.page` makes the page.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.run.guided import read_scoring_parameters
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.learned.score import SHUFFLED, UNTRAINED, Score, make_score
from mallocmuzero.solvers.learned.solver import make_policy
from mallocmuzero.solvers.solve import warm_up

from ..common.job_pool import one_thread
from ..common.json_lines import ROOT, Record, append, keyed_by, read_runs
from ..common.versions import GUIDED, versions_of
from ..policy.measure import fingerprint, solved
from ..policy.problems import problems
from .ranking import Outcomes

RESULTS = ROOT / "docs" / "results" / "learning.jsonl"
key_of = keyed_by("program", "program_sha256", "share", "objective", "count", "seed", "placebo", "policy", "versions")
_NAME = re.compile(r"(\d+)-(\d+)\.policy")
_RANKING_S = 600.0


def policies(folder: Path) -> Iterator[tuple[int, int, Path]]:
    """Yields the number of programs, the training seed and the file of each policy in a folder.

    Raises:
      UserError: there is none.
    """
    found = [(match, path) for path in folder.glob("*.policy") if (match := _NAME.fullmatch(path.name))]
    if not found:
        raise UserError(f"{folder}: holds no COUNT-SEED.policy; make them by `python -m benchmarks.learning.train`")
    yield from sorted((int(match[1]), int(match[2]), path) for match, path in found)


def players(path: Path, seed: int, last: bool) -> Iterator[tuple[str | None, Score]]:
    """Yields the score of a policy, and for the last one those of its placebos."""
    parameters = read_scoring_parameters(path)
    for placebo in (None, UNTRAINED, SHUFFLED) if last else (None,):
        yield placebo, make_score(parameters, placebo, seed)


def main() -> None:
    """Measures what is missing."""
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--split", default="heldout")
    parser.add_argument("--objectives", nargs="+", default=["msa", "robust"])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.5])
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    versions = versions_of(GUIDED)
    trained = list(policies(arguments.folder))
    most = max(count for count, _, _ in trained)
    done = {key for key, _ in read_runs([arguments.results], key_of)}
    warm_up(make_policy(next(players(trained[0][2], 0, False))[1]))
    for problem in problems(arguments.split, arguments.shares, arguments.objectives):
        outcomes = None
        for count, seed, path in trained:
            for placebo, score in players(path, seed, count == most):
                record: Record = {
                    **problem._asdict(),
                    "program_sha256": problem.program_sha256,
                    "count": count,
                    "seed": seed,
                    "placebo": placebo,
                    "policy": fingerprint(path),
                    "versions": versions,
                    "split": arguments.split,
                }
                if key_of(record) in done:
                    continue
                if outcomes is None:
                    task = Task(problem.load(), None, problem.objective, Budget(_RANKING_S, clock=PROCESSOR), 0)
                    outcomes = Outcomes(task, 0)
                record |= solved(problem, make_policy(score), 0.0, seed)
                share = outcomes.share_of_gain(score)
                record["top_share"] = None if np.isnan(share) else share
                record["changes"] = len(outcomes.gain_s)
                append(arguments.results, record)
        print(problem.name, problem.objective, flush=True)


if __name__ == "__main__":
    main()
