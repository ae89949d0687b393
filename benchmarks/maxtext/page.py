"""Renders docs/results/maxtext.md from docs/results/maxtext.jsonl, which `measure` of this folder fills.

python -m benchmarks.maxtext.page [--results FILE]
"""

from collections.abc import Sequence

from ..common.json_lines import ROOT, Record
from ..common.marked_page import fill_marks
from ..common.page_command import write_page
from ..round_trip.page import MODELS, gain_cells, gains, mean_gains, ratio
from ..untuned.page import room
from .measure import RESULTS, key_of
from .setups import SETUPS

PAGE = ROOT / "docs" / "results" / "maxtext.md"
_SETUPS = {setup.name: setup for setup in SETUPS}


def render(page: str, runs: Sequence[Record]) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    tuned = sorted((run for run in runs if run["error"] is None), key=lambda run: ratio(run, "confirmed_us"))
    failed = [run for run in runs if run["error"] is not None]
    made = (("summary", summary(tuned, failed)), ("steps", table(tuned)), ("effort", effort(tuned)))
    return fill_marks(page, made, "benchmarks/maxtext/page.py", PAGE)


def summary(tuned: Sequence[Record], failed: Sequence[Record]) -> list[str]:
    """Returns counts, means, versions and failures."""
    if not tuned:
        return ["No run yet."]
    both = sum(map(gains, tuned))
    lines = [f"- {both} of {len(tuned) + len(failed)} steps gain under both models."]
    for over, name in (("default_us", "XLA's default"), ("flags_us", "the best of the flag grid")):
        known = [run for run in tuned if run[over] is not None]
        if not known:
            continue
        lines.append(f"- Mean confirmed gain over {name}, {len(known)} steps: {mean_gains(known, over)}.")
    used = sorted({(run["maxtext"], run["versions"]["jax"], run["versions"]["libtpu"]) for run in tuned})
    lines += [f"- MaxText {maxtext}, jax {jax}, libtpu {libtpu}." for maxtext, jax, libtpu in used]
    return lines + [f"- `{run['setup']}`, devices {run['devices']}, failed: {run['error']}" for run in failed]


def table(runs: Sequence[Record]) -> list[str]:
    """Returns the table of steps, those that gain most first."""
    lines = [
        "| model | target | devices | batch | length | accesses | loops | room "
        "| default, us | promised | confirmed | of flags | default, us | promised | confirmed | of flags | kept |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
        "| | | | | | | | | **msa** | | | | **cycles** | | | | |",
    ]
    for run in runs:
        setup = _SETUPS[run["setup"]]
        cells = [f"`{setup.model}`", f"`{run['target']}`", run["devices"], f"{setup.batch}", f"{setup.length}"]
        cells += [f"{run['accesses']:,}", f"{run['loops'] or ''}", _room(run)]
        for model in MODELS:
            cells += gain_cells(run, model)
        lines.append(f"| {' | '.join([*cells, run['kept'] or 'default'])} |")
    return lines


def _room(run: Record) -> str:
    return "-" if run["bound"] is None else f"{room(run):.1f}"


def effort(runs: Sequence[Record]) -> list[str]:
    """Returns the table of what the runs took: seconds by part, sets of options decoded."""
    lines = [
        "| model | target | minutes | workers | capture, s | solver, s | translation, s | compiler's answers, s "
        "| option sets decoded | kernels | without a cost |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for run in runs:
        took = run["seconds"]
        cells = [f"`{_SETUPS[run['setup']].model}`", f"`{run['target']}`"]
        cells += [f"{run['tune_minutes']:g}", f"{run['workers']}"]
        cells += [f"{took[part]:.0f}" for part in ("capture", "solve", "translate")]
        cells.append(f"{took['confirm'] + took.get('scout', 0.0):.0f}")
        cells += [f"{run['decodes']:,}", f"{run['kernels'] or ''}", f"{run['kernels_without_cost'] or ''}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Writes the page."""
    runs = write_page(__doc__, PAGE, RESULTS, key_of, render)
    print(f"wrote {PAGE}: {len(runs)} runs")


if __name__ == "__main__":
    main()
