"""Tables of docs/results/earlier-agent.md: runs, targets, trained and held-out programs, the drawn program."""

from ..common.json_lines import Record
from ..common.versions import count_current
from ..solvers.tables import TIE, captured
from .records import HELD_OUT, MODES, UNGUIDED
from .standing import Standing
from .targets import LEVEL_WITH, STRONG, targets

RIVALS = (*STRONG, *LEVEL_WITH, "milp")
_WORDS = {True: "reached", False: "not reached", None: "not known yet"}


def overview(standing: Standing) -> list[str]:
    """Returns how much was run, and by which versions and policies."""
    counts = []
    for mode in MODES:
        runs = [run for run in standing.runs if run["mode"] == mode]
        counts.append(f"{len(runs)} {mode} ({count_current(runs)})")
    policies = sorted({run["policy_sha256"] for run in standing.runs if run["policy_sha256"]})
    return [
        f"Runs of the agent: {', '.join(counts)}; "
        f"{'policies ' + ', '.join(f'`{policy}`' for policy in policies) if policies else 'no policy yet'}.",
        f"{len(standing.contended)} of {len(standing.references)} programs are contended, "
        f"{len(standing.contended_heldout)} of them held out: {', '.join(f'`{n}`' for n in standing.contended)}.",
    ]


def target_list(standing: Standing) -> list[str]:
    """Returns the table of targets."""
    lines = ["| target | | measured |", "|---|---|---|"]
    return lines + [f"| {t.words} | {_WORDS[t.reached]} | {t.figures} |" for t in targets(standing)]


def trained(standing: Standing) -> list[str]:
    """Returns the table of programs trained on, contended ones first."""
    found = {name: runs for name in standing.references if (runs := standing.trained(name))}
    if not found:
        return ["No run yet."]
    lines = [
        "| program | split | minutes | tuned | best known | bound | first line | policy alone | policy with search "
        "| ours | to tuned | of the possible gain |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in sorted(found, key=lambda name: (name not in standing.contended, name)):
        entry, runs = standing.references[name], found[name]
        ours = _mean(runs, "ratio")
        cells = [f"`{name}`" if name in standing.contended else f"`{name}` (not contended)", entry["split"]]
        cells.append(f"{standing.trained_s[name] / 60:g}")
        figures = [standing.tuned(name), standing.best_known[name], entry["bound"]]
        figures += [_mean(runs, what) for what in ("first", "policy", "search")]
        cells += [f"{100 * figure:.2f}" for figure in (*figures, ours)]
        cells += [
            f"{100 * (ours / standing.tuned(name) - 1.0):+.2f} %",
            f"{100 * captured(ours, entry['bound']):.0f} %",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def held_out(standing: Standing) -> list[str]:
    """Returns a table per budget: held-out programs and controls by solvers, the best in bold."""
    lines: list[str] = []
    for seconds in standing.solved_budgets:
        names = [name for name in standing.references if standing.latest(HELD_OUT, name, seconds)]
        names.sort(key=lambda name: (name not in standing.contended, name))
        lines += ["", f"### {seconds:g} s", ""]
        lines.append(
            "| program | tuned | best known | bound | `guided` | without policy | "
            + " | ".join(f"`{r}`" for r in RIVALS)
            + " |"
        )
        lines.append("|---|" + "---:|" * (len(RIVALS) + 5))
        for name in names:
            entry = standing.references[name]
            ratios = [standing.ratio(mode, name, seconds) for mode in (HELD_OUT, UNGUIDED)]
            ratios += [standing.board.ratio(rival, name, seconds) for rival in RIVALS]
            best = min(ratio for ratio in ratios if ratio is not None)
            cells = [f"`{name}`" if name in standing.contended else f"`{name}` (not contended)"]
            cells += [
                f"{100 * figure:.2f}" for figure in (standing.tuned(name), standing.best_known[name], entry["bound"])
            ]
            cells += [_bold(ratio, best) for ratio in ratios]
            lines.append("| " + " | ".join(cells) + " |")
    return lines[1:] or ["No run yet."]


def drawn(standing: Standing, name: str) -> list[str]:
    """Returns the table of one program: its references, and every budget of every solver."""
    entry = standing.references[name]
    lines = ["| | % of production |", "|---|---:|", "| production | 100.00 |"]
    lines.append(f"| tuned production | {100 * standing.tuned(name):.2f} |")
    for run in (run for seconds in standing.solved_budgets for run in standing.latest(HELD_OUT, name, seconds)):
        lines.append(f"| `guided`, {run['budget_s']:g} s, seed {run['seed']} | {100 * run['ratio']:.2f} |")
    for run in standing.trained(name):
        lines.append(
            f"| trained on it for {run['budget_s'] / 60:g} minutes, seed {run['seed']} | {100 * run['ratio']:.2f} |"
        )
    for rival in RIVALS:
        for seconds in standing.board.budgets:
            ratio = standing.board.ratio(rival, name, seconds)
            if ratio is not None:
                lines.append(f"| `{rival}`, {seconds:g} s | {100 * ratio:.2f} |")
    lines.append(f"| best known | {100 * standing.best_known[name]:.2f} |")
    lines.append(f"| bound | {100 * entry['bound']:.2f} |")
    return lines


def _mean(runs: list[Record], what: str) -> float:
    return float(sum(run[what] for run in runs) / len(runs))


def _bold(ratio: float | None, best: float) -> str:
    if ratio is None:
        return "-"
    return f"**{100 * ratio:.2f}**" if ratio <= best * (1 + TIE) else f"{100 * ratio:.2f}"
