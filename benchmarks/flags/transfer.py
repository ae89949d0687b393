"""Finds flags for functions at several sizes, and tries them at the other sizes; fills a table of a page.

    python -m benchmarks.flags.transfer [--folder runs/flag-sizes] [--decodes 400]

Captures the functions of `functions.py` for v5e until memory is assigned, unless FOLDER has them. Gains are under
`msa`, as our decoder foresees them. Writes the table of docs/results/flags-alone.md.
"""

import argparse
import math
from pathlib import Path
from typing import NamedTuple

from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.environment import managed_python
from mallocmuzero.env.physics.cost import MSA
from mallocmuzero.env.physics.objective import Judge, make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.roundtrip.translate import translate
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import from_flags

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks
from .page import PAGE

MAKER = "benchmarks/flags/transfer.py"
_TARGET = "v5e"
# The functions of `functions.py`, which imports JAX, by family; the first of each is the benchmark's own.
FAMILIES = {
    "dlrm": ("dlrm_2048", "dlrm_1024", "dlrm_3072", "dlrm_4096"),
    "decode": ("decode_16", "decode_8", "decode_24", "decode_16_1536"),
    "lstm": ("lstm_64", "lstm_32", "lstm_96", "lstm_64_48"),
}


class Found(NamedTuple):
    """The flags found for one function."""

    judge: Judge
    options: dict[str, str]


def captured(name: str, folder: Path) -> Program:
    """Returns a function's program, captured unless the folder has it."""
    path = folder / f"{name}-{_TARGET}.json.gz"
    if path.exists():
        return read_program(path)
    folder.mkdir(parents=True, exist_ok=True)
    function = f"{__package__}.functions:{name}"
    return capture(function, _TARGET, path, python=managed_python(print), working_folder=ROOT, quick=True)


def found(program: Program, decodes: int) -> Found:
    """Searches flags for a program."""
    judge = make_judge(program, MSA)
    assert program.production is not None
    best = translate(judge, program.production, math.inf, decodes=decodes, flags_only=True)[0]
    return Found(judge, dict(best.options))


def gain(one: Found, options: dict[str, str]) -> float:
    """Returns the gain in per cent over no flags."""
    program, target = one.judge.program, one.judge.target
    before, after = (
        one.judge.judge(Decoder(program, target, from_flags(target, flags)).decode()) for flags in ({}, options)
    )
    return 100.0 * (1.0 - after / before)


def table(families: dict[str, dict[str, Found]]) -> list[str]:
    """Returns the lines of the table: a row for each function, with the flags of its own and of the others."""
    lines = ["| function | its own flags | those of the others |", "|---|--:|---|"]
    for family in families.values():
        for name, one in family.items():
            others = ", ".join(
                f"`{other}` {gain(one, its.options):.2f}" for other, its in family.items() if other != name
            )
            lines.append(f"| `{name}` | {gain(one, one.options):.2f} | {others} |")
    return lines


def main() -> None:
    """Measures, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "runs" / "flag-sizes", metavar="FOLDER")
    parser.add_argument("--decodes", type=int, default=400, metavar="N", help="for each search")
    given = parser.parse_args()
    families = {
        family: {name: found(captured(name, given.folder), given.decodes) for name in names}
        for family, names in FAMILIES.items()
    }
    page = fill_marks(PAGE.read_text(encoding="utf-8"), [("sizes", table(families))], MAKER, PAGE)
    write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    main()
