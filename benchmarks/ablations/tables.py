"""The tables of docs/ablations.md: every row beside the agent as it is, on equal programs, seeds, time and code."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import binomtest

from ..common.json_lines import Record
from ..solvers.tables import captured
from .records import DEFAULT, Row

_DRAWS = 10_000
MEASURES = {"best": "best mapping", "policy": "policy alone", "search": "policy with search"}
# What a row has to be run on before it counts for or against its means.
ENOUGH_PROGRAMS, ENOUGH_SEEDS = 6, 3


class Difference(NamedTuple):
    """A row against the default, in logarithms of latency: below 0 the row is better.

    mean, low, high: over programs, each the mean over its seeds; a 95 % bootstrap interval.
    better, worse: pairs.
    p: of a two-sided sign test over pairs; 1 if all are equal.
    """

    mean: float
    low: float
    high: float
    better: int
    worse: int
    p: float


class Pair(NamedTuple):
    """A run and the default's with the same program, seed, time and code."""

    program: str
    seed: int
    run: Record
    default: Record


@dataclass(frozen=True, eq=False)
class Ablations:
    """Runs, and what they are held against.

    Attributes:
      rows: that are declared.
      runs: of the programs in `references`, oldest first.
      references: by name of program (`solver_references.reference`).
    """

    rows: dict[str, Row]
    runs: list[Record]
    references: dict[str, dict[str, Any]]

    @cached_property
    def _defaults(self) -> dict[tuple[Any, ...], Record]:
        return {_setting(run): run for run in self.runs if run["row"] == DEFAULT}

    def pairs(self, row: str) -> list[Pair]:
        """Returns a row's runs that have a counterpart, one per program and seed: the last."""
        found: dict[tuple[str, int], Pair] = {}
        for run in self.runs:
            default = self._defaults.get(_setting(run))
            if run["row"] == row and default is not None:
                found[run["program"], run["seed"]] = Pair(run["program"], run["seed"], run, default)
        return [found[key] for key in sorted(found)]

    def gain(self, run: Record) -> float:
        """Returns the share of the possible gain that a run's best mapping wins."""
        bound = self.references[run["program"]]["bound"]
        return captured(run["best"], bound)


def _setting(run: Record) -> tuple[Any, ...]:
    return (run["program"], run["seed"], float(run["budget_s"]), run["code"], run["machine"])


def difference(pairs: Sequence[Pair], measure: str) -> Difference:
    """Returns how a row's runs differ from the default's. At least one pair is needed."""
    by_program: dict[str, list[float]] = {}
    for pair in pairs:
        by_program.setdefault(pair.program, []).append(float(np.log(pair.run[measure] / pair.default[measure])))
    return compare(list(by_program.values()))


def compare(groups: Sequence[Sequence[float]]) -> Difference:
    """Returns the mean over groups of their means, and how sure it is.

    The bootstrap draws groups, and within each its values: seeds of one program are not as good as other programs.
    """
    generator = np.random.default_rng(0)
    draws = np.stack([generator.choice(np.array(group), (_DRAWS, len(group))).mean(1) for group in groups], 1)
    chosen = generator.integers(len(groups), size=draws.shape)
    low, high = np.quantile(np.take_along_axis(draws, chosen, 1).mean(1), [0.025, 0.975])
    values = np.concatenate([np.array(group) for group in groups])
    better, worse = int((values < 0).sum()), int((values > 0).sum())
    p = float(binomtest(better, better + worse).pvalue) if better + worse else 1.0
    mean = float(np.mean([np.mean(group) for group in groups]))
    return Difference(mean, float(low), float(high), better, worse, p)


def in_percent(found: Difference, unit: str = "") -> str:
    """Returns a difference in latency and its interval, as geometric means have it."""
    mean, low, high = (100.0 * float(np.expm1(value)) for value in (found.mean, found.low, found.high))
    return f"{mean:+.2f}{unit} ({low:+.2f} to {high:+.2f})"


def verdict(found: Difference, programs: int, seeds: int) -> str:
    """Returns `better` or `worse` if the interval excludes 0 and enough programs were run, with `so far` where there
    are too few seeds; else nothing."""
    if programs < ENOUGH_PROGRAMS or found.low <= 0.0 <= found.high:
        return ""
    return ("better" if found.high < 0.0 else "worse") + ("" if seeds >= ENOUGH_SEEDS else " so far")


def overview(ablations: Ablations) -> list[str]:
    """Returns what was run."""
    runs = ablations.runs
    if not runs:
        return ["No run yet."]
    seconds = " and ".join(f"{value:g}" for value in sorted({float(run["budget_s"]) for run in runs}))
    codes = list(dict.fromkeys(run["code"] for run in runs))
    return [
        f"{len(runs)} runs of {seconds} seconds of processor time each, {len({run['row'] for run in runs})} rows, "
        f"{len({run['program'] for run in runs})} programs, {len({run['seed'] for run in runs})} seeds, "
        f"{len(codes)} versions of the agent's code (the last is `{codes[-1]}`)."
    ]


def _counts(pairs: list[Pair]) -> tuple[int, int]:
    """Returns the programs, and the least number of seeds of any."""
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
    """Returns the table of geometric means, in per cent of production, over the runs of a row that have a
    counterpart."""
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
    """Returns the table of what the rows are."""
    lines = ["| row | what it is to show | settings | runs |", "|---|---|---|---:|"]
    for name, row in ablations.rows.items():
        settings = ", ".join(f"`{key}={str(value).lower()}`" for key, value in row.settings.items())
        made = sum(run["row"] == name for run in ablations.runs)
        runs = str(made) if made or row.needs is None else f"not run: {row.needs}"
        lines.append(f"| `{name}` | {row.why} | {settings} | {runs} |")
    return lines


def _percent(ratios: list[float]) -> str:
    return f"{100 * np.mean(ratios):.2f}" if ratios else "-"
