"""Makes the page: one HTML file that holds its data as JSON, its styles and its scripts, and needs no network."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...env.physics.cost import MODELS, MSA
from ...env.physics.objective import ROBUST, resolve
from ...env.program.mapping import Mapping
from ...env.program.program import Program
from ...env.verifier.verify import check
from ...version import VERSION
from .changes import Comparison, compare
from .figures import figures
from .program_view import Named, mapping_view, program_view
from .subject import Subject

_FOLDER = Path(__file__).parent / "page"
# In the order in which they are read; each needs only those before it.
_SCRIPTS = ("text.js", "timeline.js", "memory.js", "traffic.js", "ladder.js", "changes.js", "curves.js", "main.js")
XLA = "XLA's default"
_NAMES = {
    "run": "the run's best mapping",
    "mapping": "this mapping",
    "tuning": "the mapping with the confirmed options",
}
Progress = Callable[[str, int, int], None]


def make_page(
    subject: Subject,
    *,
    objective: str | None = None,
    model: str | None = None,
    most_changes: int,
    progress: Progress = lambda program, done, total: None,
) -> str:
    """Returns the page of a report.

    Args:
      subject: what it is about.
      objective: what mappings are judged by; None for the objective that they were made for.
      model: cost model of the time axis; None for that of the objective, `msa` for `robust`.
      most_changes: number of differences to production whose worth is found.
      progress: called with the program, the number of differences tried so far, and the total.

    Raises:
      UserError: the objective or the model cannot price a program, or a mapping is not legal.
    """
    views = [
        _view(program, mapping, subject, objective, model, most_changes, progress)
        for program, mapping in subject.mapped
    ]
    data = {
        "kind": subject.kind,
        "title": subject.title,
        "version": VERSION,
        "programs": views,
        "charts": subject.charts,
        "best": subject.best,
        "tuning": subject.tuning,
        "reproduce": {"command": subject.command, "facts": subject.facts, "notes": subject.notes},
    }
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    page = (_FOLDER / "report.html").read_text(encoding="utf-8")
    for mark, content in (
        ("TITLE", html.escape(f"{subject.title} · mallocMuZero")),
        ("STYLE", (_FOLDER / "report.css").read_text(encoding="utf-8")),
        ("SCRIPT", "".join((_FOLDER / name).read_text(encoding="utf-8") for name in _SCRIPTS)),
        # Last, since names in the data could look like a mark. `<` could end the element that holds them.
        ("DATA", text.replace("<", "\\u003c")),
    ):
        page = page.replace(f"{{{{{mark}}}}}", content, 1)
    return page


def _view(
    program: Program,
    mapping: Mapping | None,
    subject: Subject,
    objective: str | None,
    model: str | None,
    most_changes: int,
    progress: Progress,
) -> dict[str, Any]:
    judged = resolve(program, objective or subject.objective)
    drawn = model or (MSA if judged == ROBUST else judged)
    named = [] if mapping is None else [Named(_NAMES[subject.kind], mapping)]
    if program.production is not None:
        named.append(Named(XLA, program.production))
    for each in named:
        check(program, program.target, each.mapping)
    comparison = None
    if mapping is not None and program.production is not None:
        comparison = compare(
            program,
            mapping,
            program.production,
            judged,
            most_changes,
            lambda done, total: progress(program.name, done, total),
        )
    return {
        **program_view(program),
        "objective": judged,
        "model": drawn,
        "figures": figures(program, named if mapping is not None else []),
        "mappings": [mapping_view(program, each, drawn) for each in named],
        "changes": None if comparison is None else _changes(comparison),
    }


def _changes(comparison: Comparison) -> dict[str, Any]:
    rows = []
    for worth in comparison.worths:
        difference = comparison.differences[worth.difference]
        rows.append(
            {
                "buffer": difference.buffer,
                "first": difference.first,
                "last": difference.last,
                "accesses": len(difference.accesses),
                "fast": difference.fast,
                "share": worth.share,
                "us": {name: round(seconds * 1e6, 4) for name, seconds in worth.model_s.items()},
            }
        )
    return {
        "count": len(comparison.differences),
        "rows": rows,
        "replayed": comparison.replayed_s / comparison.mapping_s if comparison.mapping_s > 0 else 1.0,
        "models": [name for name in MODELS if any(name in worth.model_s for worth in comparison.worths)],
    }
