"""Tables of docs/results/ablations.md: every row beside the default, on equal programs, seeds, budgets and versions."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy  # `scipy.stats` loads where it is first used: it takes half a second

from ..common.json_lines import Record
from ..common.versions import TRAINING, VERSIONS, count_current
from ..solvers.tables import captured
from .records import DEFAULT, Row

_DRAWS = 10_000
MEASURES = {"best": "best mapping", "policy": "policy alone", "search": "policy with search"}
# Programs and seeds that a row needs for a verdict.
ENOUGH_PROGRAMS, ENOUGH_SEEDS = 6, 3


class Difference(NamedTuple):
    """Difference between a row and the default, in logarithms of latency: below 0 the row is better.

    Attributes:
      mean, low, high: mean over programs of the mean over seeds, and its 95 % bootstrap interval.
      better, worse: numbers of pairs.
      p: of a two-sided sign test over pairs; 1 if all are equal.
    """

    mean: float
    low: float
    high: float
    better: int
    worse: int
    p: float


class Pair(NamedTuple):
    """A run of a row and one of the default with the same program, seed, budget, versions and machine."""

    program: str
    seed: int
    run: Record
    default: Record


@dataclass(frozen=True, eq=False)
class Ablations:
    """Runs of the ablations, and the references of their programs.

    Attributes:
      rows: the declared rows by name.
      runs: runs on the programs in `references`, oldest first.
      references: by name of program, see `solvers.references.reference`.
    """

    rows: dict[str, Row]
    runs: list[Record]
    references: dict[str, dict[str, Any]]

    @cached_property
    def _defaults(self) -> dict[tuple[Any, ...], Record]:
        return {_setting(run): run for run in self.runs if run["row"] == DEFAULT}

    def pairs(self, row: str) -> list[Pair]:
        """Returns the pairs of a row, one per program and seed: the last."""
        found: dict[tuple[str, int], Pair] = {}
        for run in self.runs:
            default = self._defaults.get(_setting(run))
            if run["row"] == row and default is not None:
                found[run["program"], run["seed"]] = Pair(run["program"], run["seed"], run, default)
        return [found[key] for key in sorted(found)]

    def gain(self, run: Record) -> float:
        """Returns the share of the possible gain that the best mapping of a run wins."""
        bound = self.references[run["program"]]["bound"]
        return captured(run["best"], bound)


def _setting(run: Record) -> tuple[Any, ...]:
    return (run["program"], run["seed"], float(run["budget_s"]), *sorted(run["versions"].items()), run["machine"])


def difference(pairs: Sequence[Pair], measure: str) -> Difference:
    """Returns the difference of at least one pair."""
    by_program: dict[str, list[float]] = {}
    for pair in pairs:
        by_program.setdefault(pair.program, []).append(float(np.log(pair.run[measure] / pair.default[measure])))
    return compare(list(by_program.values()))


def compare(groups: Sequence[Sequence[float]]) -> Difference:
    """Returns the mean over groups of their means, with its interval and a sign test.

    Args:
      groups: differences by program, one per seed. The bootstrap draws programs, and seeds within each: seeds of one
        program are not independent programs.
    """
    generator = np.random.default_rng(0)
    draws = np.stack([generator.choice(np.array(group), (_DRAWS, len(group))).mean(1) for group in groups], 1)
    chosen = generator.integers(len(groups), size=draws.shape)
    low, high = np.quantile(np.take_along_axis(draws, chosen, 1).mean(1), [0.025, 0.975])
    values = np.concatenate([np.array(group) for group in groups])
    better, worse = int((values < 0).sum()), int((values > 0).sum())
    p = float(scipy.stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
    mean = float(np.mean([np.mean(group) for group in groups]))
    return Difference(mean, float(low), float(high), better, worse, p)


def in_percent(found: Difference, unit: str = "") -> str:
    """Returns a difference of geometric means and its interval, in per cent of latency."""
    mean, low, high = (100.0 * float(np.expm1(value)) for value in (found.mean, found.low, found.high))
    return f"{mean:+.2f}{unit} ({low:+.2f} to {high:+.2f})"


def verdict(found: Difference, programs: int, seeds: int) -> str:
    """Returns `better` or `worse` if the interval excludes 0 on enough programs, else nothing.

    `so far` is added where seeds are too few.
    """
    if programs < ENOUGH_PROGRAMS or found.low <= 0.0 <= found.high:
        return ""
    return ("better" if found.high < 0.0 else "worse") + ("" if seeds >= ENOUGH_SEEDS else " so far")


def overview(ablations: Ablations) -> list[str]:
    """Returns how much was run, and by which versions."""
    runs = ablations.runs
    if not runs:
        return ["No run yet."]
    seconds = " and ".join(f"{value:g}" for value in sorted({float(run["budget_s"]) for run in runs}))
    numbers = sorted({run["versions"][TRAINING] for run in runs})
    return [
        f"{len(runs)} runs of {seconds} seconds of processor time each, {len({run['row'] for run in runs})} rows, "
        f"{len({run['program'] for run in runs})} programs, {len({run['seed'] for run in runs})} seeds, "
        f"versions {', '.join(map(str, numbers))} of the agent; {count_current(runs)}, {VERSIONS[TRAINING]}."
    ]


def _counts(pairs: list[Pair]) -> tuple[int, int]:
    """Returns the number of programs, and the least number of seeds of a program."""
    seeds: dict[str, int] = {}
    for pair in pairs:
        seeds[pair.program] = seeds.get(pair.program, 0) + 1
    return len(seeds), min(seeds.values(), default=0)


def differences(ablations: Ablations) -> list[str]:
    """Returns the table of rows against the default: per cent of latency, with intervals."""
    lines = [
        "| row | programs x seeds | "
        + " | ".join(f"{words}, difference in % | better / worse, p" for words in MEASURES.values())
        + " | verdict |",
        "|---|---:|" + "---|---|" * len(MEASURES) + "---|",
    ]
    for name in ablations.rows:
        pairs = ablations.pairs(name)
        if name == DEFAULT or not pairs:
            continue
        programs, seeds = _counts(pairs)
        cells, words = [f"`{name}`", f"{programs} x {seeds}"], []
        for measure, label in MEASURES.items():
            found = difference(pairs, measure)
            cells.append(in_percent(found))
            cells.append(f"{found.better} / {found.worse}, {found.p:.2g}")
            said = verdict(found, programs, seeds)
            if said:
                words.append(f"{label}: {said}")
        lines.append("| " + " | ".join([*cells, "; ".join(words)]) + " |")
    return lines


def means(ablations: Ablations) -> list[str]:
    """Returns the table of geometric means over the pairs of a row, in per cent of production."""
    lines = [
        "| row | programs x seeds | updates | moves | first line | best mapping | policy alone | policy with search "
        "| of the possible gain |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in ablations.rows:
        pairs = ablations.pairs(name)
        if not pairs:
            continue
        runs = [pair.run for pair in pairs]
        programs, seeds = _counts(pairs)
        cells = [f"`{name}`", f"{programs} x {seeds}"]
        cells += [f"{np.mean([run[what] for run in runs]):,.0f}" for what in ("updates", "moves")]
        for measure in ("first", *MEASURES):
            by_program: dict[str, list[float]] = {}
            for run in runs:
                by_program.setdefault(run["program"], []).append(float(np.log(run[measure])))
            cells.append(f"{100 * np.exp(np.mean([np.mean(group) for group in by_program.values()])):.2f}")
        cells.append(f"{100 * np.mean([ablations.gain(run) for run in runs]):.0f} %")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def programs(ablations: Ablations) -> list[str]:
    """Returns the table of best mappings by program, the mean over seeds, in per cent of production."""
    names = [name for name in ablations.references if any(run["program"] == name for run in ablations.runs)]
    lines = ["| row | " + " | ".join(f"`{name}`" for name in names) + " |", "|---|" + "---:|" * len(names)]
    for what in ("tuned", "bound"):
        lines.append(f"| {what} | " + " | ".join(_percent([ablations.references[n][what]]) for n in names) + " |")
    for row in ablations.rows:
        pairs = ablations.pairs(row)
        if pairs:
            cells = [_percent([pair.run["best"] for pair in pairs if pair.program == name]) for name in names]
            lines.append("| " + " | ".join([f"`{row}`", *cells]) + " |")
    return lines


def declared(ablations: Ablations) -> list[str]:
    """Returns the table of declared rows."""
    lines = ["| row | description | settings | runs |", "|---|---|---|---:|"]
    for name, row in ablations.rows.items():
        settings = ", ".join(f"`{key}={str(value).lower()}`" for key, value in row.settings.items())
        made = sum(run["row"] == name for run in ablations.runs)
        runs = str(made) if made or row.needs is None else f"not run: {row.needs}"
        lines.append(f"| `{name}` | {row.why} | {settings} | {runs} |")
    return lines


def _percent(ratios: list[float]) -> str:
    return f"{100 * np.mean(ratios):.2f}" if ratios else "-"
