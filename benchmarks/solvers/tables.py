"""Tables of docs/results/solvers.md: means with intervals, wins and losses, every program, the best solver by class."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

from ..common.json_lines import Record
from ..common.versions import is_current
from .records import SEEDLESS
from .references import CONTENDED_HEADROOM, headroom

_DRAWS = 10_000
# Seeds needed to show how steady a solver is.
_SEEDS = 3
# A difference between the seeds of two solvers counts if equal ones would show it less often than this.
_CHANCE = 0.05
# Mappings within this share of each other count as equally good.
TIE = 1e-3
Entry = dict[str, Any]
GROUPS: dict[str, Callable[[Entry], bool]] = {
    "all": lambda entry: True,
    "contended": lambda entry: (headroom(entry) or 0.0) >= CONTENDED_HEADROOM,
    "contended, inference": lambda entry: GROUPS["contended"](entry) and not entry["training"],
    "contended, training": lambda entry: GROUPS["contended"](entry) and bool(entry["training"]),
    "contended, train split": lambda entry: GROUPS["contended"](entry) and entry["split"] == "train",
    "contended, held-out": lambda entry: GROUPS["contended"](entry) and entry["split"] == "heldout",
    "not contended": lambda entry: not GROUPS["contended"](entry),
}
_SIZES = ((0, 700), (700, 2000), (2000, 10**9))


@dataclass(frozen=True, eq=False)
class Board:
    """Runs of solvers, and the references of their programs.

    Attributes:
      runs: records of runs on the programs in `references`.
      references: by name of program, see `references.reference`.
    """

    runs: list[Record]
    references: dict[str, Entry]

    @cached_property
    def budgets(self) -> list[float]:
        """Budgets in seconds, least first."""
        return sorted({float(run["budget_s"]) for run in self.runs})

    @cached_property
    def _ratios(self) -> dict[tuple[str, str], list[tuple[float, int, bool, float]]]:
        found: dict[tuple[str, str], list[tuple[float, int, bool, float]]] = {}
        for run in self.runs:
            if run["ratio"] is not None:
                entry = (float(run["budget_s"]), int(run["seed"]), bool(run["ended"]), float(run["ratio"]))
                found.setdefault((run["solver"], run["program"]), []).append(entry)
        return found

    def ratio(self, solver: str, program: str, budget: float) -> float | None:
        """Returns latency over production, the mean over seeds; a run that ended stands for larger budgets."""
        by_seed = self.seeds(solver, program, budget)
        return float(np.mean(list(by_seed.values()))) if by_seed else None

    def seeds(self, solver: str, program: str, budget: float) -> dict[int, float]:
        """Returns latency over production by seed; a run that ended stands for larger budgets."""
        by_seed: dict[int, tuple[float, float]] = {}
        for seconds, seed, ended, ratio in self._ratios.get((solver, program), []):
            usable = seconds == budget or (ended and seconds < budget)
            if usable and (seed not in by_seed or seconds > by_seed[seed][0]):
                by_seed[seed] = (seconds, ratio)
        if solver in SEEDLESS and 0 in by_seed:
            by_seed = {0: by_seed[0]}
        return {seed: ratio for seed, (_, ratio) in by_seed.items()}

    def programs(self, budget: float) -> list[str]:
        """Returns the programs with a production mapping that a solver has run with a budget, most headroom first."""
        found = {r["program"] for r in self.runs if float(r["budget_s"]) == budget and r["ratio"] is not None}
        return sorted(found, key=lambda name: (-(headroom(self.references[name]) or 0.0), name))

    def contended(self, budget: float) -> list[str]:
        """Returns the contended ones of `programs`."""
        return [name for name in self.programs(budget) if GROUPS["contended"](self.references[name])]

    def solvers(self, budget: float) -> list[str]:
        """Returns the solvers that have run with a budget: most contended programs first, then least mean."""
        programs = self.contended(budget)
        found = {run["solver"] for run in self.runs if float(run["budget_s"]) == budget}
        found |= {run["solver"] for run in self.runs if run["ended"] and float(run["budget_s"]) < budget}

        def order(solver: str) -> tuple[int, float, str]:
            ratios = [self.ratio(solver, name, budget) for name in programs]
            known = [ratio for ratio in ratios if ratio is not None]
            mean = float(np.mean(np.log(known))) if known else np.inf
            return (len(programs) - len(known), mean, solver)

        return sorted(found, key=order)


def geometric_mean(ratios: list[float]) -> tuple[float, float, float]:
    """Returns the geometric mean and its 95 % bootstrap interval over programs."""
    mean, low, high = mean_of([float(np.log(ratio)) for ratio in ratios])
    return float(np.exp(mean)), float(np.exp(low)), float(np.exp(high))


def mean_of(values: list[float]) -> tuple[float, float, float]:
    """Returns the mean and its 95 % bootstrap interval."""
    array = np.array(values)
    draws = np.random.default_rng(0).choice(array, (_DRAWS, len(array))).mean(1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(array.mean()), float(low), float(high)


def captured(ratio: float, bound: float) -> float:
    """Returns the share of the possible gain that a mapping wins: 0 where production is better, 1 at the bound."""
    return max(0.0, (1.0 - ratio) / (1.0 - bound))


def versus(ratio: float, other: float) -> int:
    """Returns 1 for better, 0 for as good, -1 for worse."""
    return 0 if abs(ratio / other - 1.0) <= TIE else (1 if ratio < other else -1)


def overview(board: Board) -> list[str]:
    """Returns how much was run, and by which versions."""
    runs = board.runs
    late = max((run["seconds"] / run["budget_s"] for run in runs if run["budget_s"] > 0), default=0.0)
    lines = [
        f"{len(runs)} runs of {len({run['solver'] for run in runs})} solvers on "
        f"{len({run['program'] for run in runs})} programs; "
        f"{sum(not is_current(run) for run in runs)} of them by a solver's earlier version.",
        f"The longest of its budget that a run has taken, as a multiple: {late:.2f}.",
        "",
        "| budget | programs | solvers | runs | seeds | machines |",
        "|---:|---:|---:|---:|---:|---|",
    ]
    for budget in board.budgets:
        mine = [run for run in runs if float(run["budget_s"]) == budget]
        seeds = len({run["seed"] for run in mine})
        solvers = len({run["solver"] for run in mine})
        machines = ", ".join(f"{name}: {count}" for name, count in sorted(Counter(r["machine"] for r in mine).items()))
        lines.append(
            f"| {budget:g} s | {len(board.programs(budget))} | {solvers} | {len(mine)} | {seeds} | {machines} |"
        )
    return lines


def means(board: Board) -> list[str]:
    """Returns a table per budget: solvers by groups of programs, geometric means with intervals."""
    lines: list[str] = []
    for budget in board.budgets:
        names = board.programs(budget)
        groups = {what: [n for n in names if test(board.references[n])] for what, test in GROUPS.items()}
        groups = {what: members for what, members in groups.items() if members}
        lines += ["", f"### {budget:g} s", ""]
        lines.append("| solver | " + " | ".join(f"{what} ({len(m)})" for what, m in groups.items()) + " |")
        lines.append("|---|" + "---|" * len(groups))
        lines.append(_row("tuned", groups.values(), lambda name: board.references[name]["tuned"]))
        lines.append(_row("bound", groups.values(), lambda name: board.references[name]["bound"]))
        for solver in board.solvers(budget):
            lines.append(_row(f"`{solver}`", groups.values(), lambda name, s=solver, b=budget: board.ratio(s, name, b)))
        lines += _against(board, budget, groups.get("contended", []))
    return lines[1:]


def steady(board: Board) -> list[str]:
    """Returns, for solvers with several seeds, how far the worst lies behind the median, who is level with all other
    solvers, and on how many programs a rank test finds another one ahead."""
    lines = [
        "| budget | solver | seeds | programs | worst behind median, % | most | within 0.5 % "
        "| best of all, or within 0.1 % | another ahead, by a rank test |",
        "|---:|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for budget in board.budgets:
        members = board.contended(budget)
        for solver in board.solvers(budget):
            runs = {name: board.seeds(solver, name, budget) for name in members}
            runs = {name: seeds for name, seeds in runs.items() if len(seeds) >= _SEEDS}
            if not runs:
                continue
            medians = {name: float(np.median(list(seeds.values()))) for name, seeds in runs.items()}
            behind = [100.0 * float(np.log(max(seeds.values()) / medians[name])) for name, seeds in runs.items()]
            others = [other for other in board.solvers(budget) if other != solver]
            level = beaten = 0
            for name, median in medians.items():
                known = [list(board.seeds(other, name, budget).values()) for other in others]
                level += all(versus(median, float(np.median(seeds))) >= 0 for seeds in known if seeds)
                mine = list(runs[name].values())
                beaten += any(_is_ahead(seeds, mine) for seeds in known if len(seeds) >= _SEEDS)
            lines.append(
                f"| {budget:g} s | `{solver}` | {min(map(len, runs.values()))} | {len(runs)} | {np.mean(behind):.2f} "
                f"| {max(behind):.2f} | {sum(share <= 0.5 for share in behind)} | {level} | {beaten} |"
            )
    return lines


def more_time(board: Board) -> list[str]:
    """Returns what longer budgets gain on contended programs with seed 0, for solvers that have the least budget."""
    board = Board([run for run in board.runs if run["seed"] == 0], board.references)
    lines = [
        "| solver | budget | programs | of production, % | of the possible gain | gained since the budget before, % "
        "| median | most |",
        "|---|---:|--:|---|---|---|--:|--:|",
    ]
    for solver in sorted({run["solver"] for run in board.runs if float(run["budget_s"]) == board.budgets[0]}):
        before: dict[str, float] = {}
        for budget in board.budgets:
            now = {n: ratio for n in board.contended(budget) if (ratio := board.ratio(solver, n, budget)) is not None}
            if not now:
                continue
            mean, low, high = geometric_mean(list(now.values()))
            share, least, most = mean_of([captured(r, board.references[name]["bound"]) for name, r in now.items()])
            gained = [100.0 * float(np.log(before[name] / ratio)) for name, ratio in now.items() if name in before]
            words = "| |"
            if gained:
                gain, low_gain, high_gain = mean_of(gained)
                words = f"{gain:.2f} ({low_gain:.2f}-{high_gain:.2f}) | {np.median(gained):.2f} | {max(gained):.2f}"
            lines.append(
                f"| `{solver}` | {budget:g} s | {len(now)} | {100 * mean:.2f} ({100 * low:.1f}-{100 * high:.1f}) "
                f"| {100 * share:.0f} % ({100 * least:.0f}-{100 * most:.0f}) | {words} |"
            )
            before = now
    return lines


def _is_ahead(seeds: list[float], other: list[float]) -> bool:
    """Returns whether the ratios of one solver are lower than those of another, beyond chance (Mann-Whitney,
    one-sided)."""
    return bool(mannwhitneyu(seeds, other, alternative="less").pvalue < _CHANCE)


def _row(heading: str, groups: Iterable[list[str]], ratio_of: Callable[[str], float | None]) -> str:
    cells = [heading]
    for members in groups:
        ratios = [ratio for name in members if (ratio := ratio_of(name)) is not None]
        if len(ratios) < len(members):
            cells.append(f"({len(ratios)} run)")
        else:
            mean, low, high = geometric_mean(ratios)
            cells.append(f"{100 * mean:.2f} ({100 * low:.1f}-{100 * high:.1f})")
    return "| " + " | ".join(cells) + " |"


def _against(board: Board, budget: float, members: list[str]) -> list[str]:
    """Returns the table of wins, ties and losses on contended programs."""
    if not members:
        return []
    lines = [
        "",
        f"| solver, {len(members)} contended programs | better than tuned | as good | worse | of the possible gain |",
        "|---|---:|---:|---:|---|",
    ]
    for solver in board.solvers(budget):
        ratios = {n: r for n in members if (r := board.ratio(solver, n, budget)) is not None}
        if len(ratios) < len(members):
            continue
        found = [versus(ratio, board.references[n]["tuned"] or 1.0) for n, ratio in ratios.items()]
        share, low, high = mean_of([captured(ratio, board.references[n]["bound"]) for n, ratio in ratios.items()])
        counts = " | ".join(str(found.count(value)) for value in (1, 0, -1))
        lines.append(f"| `{solver}` | {counts} | {100 * share:.0f} % ({100 * low:.0f}-{100 * high:.0f}) |")
    return lines


def programs(board: Board) -> list[str]:
    """Returns a table per budget: programs by solvers, the best in bold."""
    lines: list[str] = []
    for budget in board.budgets:
        solvers = board.solvers(budget)
        lines += ["", f"### {budget:g} s, every program", ""]
        lines.append("| program | split | tuned | bound | " + " | ".join(f"`{s}`" for s in solvers) + " | gain |")
        lines.append("|---|---|---:|---:|" + "---:|" * (len(solvers) + 1))
        for name in board.programs(budget):
            entry = board.references[name]
            ratios = [board.ratio(solver, name, budget) for solver in solvers]
            best = min((ratio for ratio in ratios if ratio is not None), default=None)
            cells = [f"`{name}`", entry["split"], _percent(entry["tuned"]), _percent(entry["bound"])]
            cells += [
                f"**{_percent(ratio)}**"
                if ratio is not None and best is not None and ratio <= best * (1 + TIE)
                else _percent(ratio)
                for ratio in ratios
            ]
            gain = "-"
            if best is not None and entry["bound"] is not None and entry["bound"] < 1.0 - CONTENDED_HEADROOM:
                gain = f"{100 * captured(best, entry['bound']):.0f} %"
            lines.append("| " + " | ".join([*cells, gain]) + " |")
    return lines[1:]


def picks(board: Board) -> list[str]:
    """Returns the table of the best solvers by class and size of program."""
    classes: dict[str, Callable[[Entry], bool]] = {
        "contended, inference": GROUPS["contended, inference"],
        "contended, training": GROUPS["contended, training"],
        "not contended": GROUPS["not contended"],
    }
    for low, high in _SIZES:
        what = f"{low} to {high} accesses" if high < 10**9 else f"{low} accesses and more"
        classes[f"contended, {what}"] = lambda e, least=low, past=high: (
            GROUPS["contended"](e) and least <= e["accesses"] < past
        )
    lines = [
        "| programs | budget | best mean | second | best on most programs | best of all solvers, geometric mean |",
        "|---|---:|---|---|---|---:|",
    ]
    for what, test in classes.items():
        for budget in board.budgets:
            members = [name for name in board.programs(budget) if test(board.references[name])]
            ratios = {s: [board.ratio(s, name, budget) for name in members] for s in board.solvers(budget)}
            full = {s: [r for r in row if r is not None] for s, row in ratios.items() if None not in row}
            if not members or not full:
                continue
            table = np.array(list(full.values()))
            mean = np.exp(np.log(table).mean(1))
            order = np.argsort(mean, kind="stable")
            solvers = list(full)
            wins = (table <= table.min(0) * (1 + TIE)).sum(1)
            most = int(np.argmax(wins))
            cells = [f"{what} ({len(members)})", f"{budget:g} s"]
            cells += [f"`{solvers[k]}` {100 * mean[k]:.2f}" for k in order[:2]]
            cells += [""] * (4 - len(cells))
            cells.append(f"`{solvers[most]}`, {wins[most]} of {len(members)}")
            cells.append(f"{100 * np.exp(np.log(table.min(0)).mean()):.2f}")
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{100 * ratio:.2f}"
