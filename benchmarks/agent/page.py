"""Renders docs/results/earlier-agent.md from agent.jsonl and guidance.jsonl, which `measure` and `guidance` fill.

    python -m benchmarks.agent.page

Other solvers' figures come from docs/results/solvers.jsonl and agent-solvers.jsonl, tuned production and bounds from
docs/results/solver-references.json, best known mappings from all of these and env/workloads/bounds.json.
"""

import argparse
import json
from pathlib import Path

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks
from ..solvers.page import REFERENCES, make_board
from ..solvers.records import RESULTS as SOLVER_RESULTS
from ..solvers.records import read as read_solvers
from . import guidance_table
from .records import RESULTS, RIVAL_RESULTS, best_known, read
from .standing import Standing
from .tables import drawn, held_out, overview, target_list, trained

PAGE = ROOT / "docs" / "results" / "earlier-agent.md"
DRAWN = "alphatensor-b64-v6e"
MAPPING = RESULTS.with_name(f"{DRAWN}.mapping.json.gz")
PICTURE = RESULTS.with_name(f"{DRAWN}.png")


def render(page: str, standing: Standing, guided: guidance_table.Runs) -> str:
    """Returns the page with its tables replaced.

    Raises:
      SystemExit: the page has no place for a table.
    """
    tables = {
        "overview": overview(standing),
        "targets": target_list(standing),
        "trained": trained(standing),
        "held-out": held_out(standing),
        "guidance": guidance_table.guidance(guided),
        "half-rivals": guidance_table.rivals(guided),
        "alphatensor": drawn(standing, DRAWN),
    }
    return fill_marks(page, tables.items(), "benchmarks/agent/page.py", PAGE)


def gather(runs: Path = RESULTS) -> Standing:
    """Returns the runs of the committed files on the programs as they are in the references."""
    entries = json.loads(REFERENCES.read_text(encoding="utf-8"))["programs"]
    references = {entry["program"]: entry for entry in entries}
    kept = [
        run
        for run in read([runs]).values()
        if run["program"] in references
        and all(run[what] == references[run["program"]][what] for what in ("program_sha256", "judged_by"))
    ]
    solvers = make_board(read_solvers([SOLVER_RESULTS, RIVAL_RESULTS]), entries).runs
    return Standing(kept, solvers, references, best_known(entries))


def draw() -> bool:
    """Draws the kept mapping beside production; returns whether there is one."""
    from mallocmuzero.env.program.mapping_file import read_mapping
    from mallocmuzero.env.viewer.picture import draw
    from mallocmuzero.env.workloads import load

    if not MAPPING.exists():
        return False
    program = load(DRAWN)
    mapping = read_mapping(MAPPING, program)
    draw(program, mapping, PICTURE, beside=program.production, names=("mallocMuZero", "XLA's production"), model="msa")
    return True


def main() -> None:
    """Writes the page and the picture."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    standing = gather()
    page = render(PAGE.read_text(encoding="utf-8"), standing, guidance_table.read())
    PAGE.write_text(page, encoding="utf-8")
    also = f" and {PICTURE}" if draw() else ""
    print(f"wrote {PAGE}{also}: {len(standing.runs)} runs")


if __name__ == "__main__":
    main()
