"""Compares the mappings of the solver `xla` with the compiler's own, program by program.

    python -m benchmarks.xla_solver.measure [WORKLOAD ...] [--variants] [--guess] [--write]

A row gives the shares of bytes and of accesses served from the same memory and of residencies of the same length, the
steady latency of both mappings under each cost model, and the milliseconds of a decode. `--variants` also replays the
other settings of the flag grid and compares latencies under `msa`. `--guess` leaves out what the compiler's log tells,
as programs of earlier captures do. `--write` writes the table to docs/xla-solver.md.
"""

import argparse
import time
from statistics import fmean, median

import numpy as np

from mallocmuzero.env.physics.cost import available_models
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.assignment_facts import without_facts
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.verifier.verify import check
from mallocmuzero.env.workloads import load, names, split
from mallocmuzero.solvers.xla.decoder import Decoder
from mallocmuzero.solvers.xla.options import from_flags

from ..common.json_lines import ROOT
from ..common.marked_page import fill_marks

PAGE = ROOT / "docs" / "xla-solver.md"
_REPEATS = 3


def stays(mapping: Mapping) -> set[tuple[int, ...]]:
    """Returns the residencies of a mapping without their offsets: buffer, interval and bytes."""
    return {(row[0], row[1], row[2], row[4], row[5]) for row in mapping.residencies.tolist()}


def measure(program: Program, part: str) -> dict[str, object]:
    """Returns the row of one program."""
    decoder = Decoder(program)
    mapping = decoder.decode()
    begin = time.perf_counter()
    for _ in range(_REPEATS):
        decoder.decode()
    milliseconds = 1e3 * (time.perf_counter() - begin) / _REPEATS
    check(program, program.target, mapping)
    real = program.production
    assert real is not None
    alike = mapping.access_fast == real.access_fast
    moved = program.access_bytes
    both = stays(mapping), stays(real)
    row: dict[str, object] = {
        "program": program.name,
        "split": part,
        "instructions": program.num_instructions,
        "bytes": float(moved[alike].sum() / moved.sum()),
        "uses": float(alike.mean()),
        "stays": len(both[0] & both[1]) / max(len(both[0] | both[1]), 1),
        "ms": milliseconds,
    }
    for model in available_models(program):
        ours, theirs = (simulate(program, program.target, m, model).latency_s for m in (mapping, real))
        row[f"{model}_us"] = theirs * 1e6
        row[model] = ours / theirs - 1.0
    return row


def replay(program: Program) -> list[tuple[str, float]]:
    """Returns name and slowdown of the replay of each setting of the flag grid, relative to the compiler's mapping."""
    found = []
    for variant in program.variants:
        seconds = variant.latency_s.get("msa")
        if not variant.options or seconds is None:
            continue
        decoder = Decoder(program, None, from_flags(program.target, variant.options))
        mapping = decoder.decode()
        check(program, program.target, mapping)
        name = " ".join(f"{key.removeprefix('xla_')}={value}" for key, value in variant.options.items())
        found.append((name, simulate(program, program.target, mapping).latency_s / seconds - 1.0))
    return found


def render(rows: list[dict[str, object]]) -> str:
    """Returns the table with its means."""
    head = "| program | split | target | bytes alike | uses alike | stays alike | msa, us | msa | cycles | decode, ms |"
    lines = [head, "|---|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        cycles = f"{100 * row['cycles']:+.2f} %" if "cycles" in row else ""  # type: ignore[operator]
        lines.append(
            f"| {row['program']} | {row['split']} | {row['target']} | {100 * row['bytes']:.2f} % | "  # type: ignore[operator]
            f"{100 * row['uses']:.2f} % | {100 * row['stays']:.1f} % | {row['msa_us']:,.1f} | "  # type: ignore[operator]
            f"{100 * row['msa']:+.2f} % | {cycles} | {row['ms']:.1f} |"  # type: ignore[operator]
        )
    groups = [("train", {"train"}), ("not train", {"validation", "heldout", "control"})]
    lines.append("")
    for title, splits in [*groups, ("all", splits_of(rows))]:
        part = [row for row in rows if row["split"] in splits]
        if part:
            lines.append("- " + summary(title, part))
    return "\n".join(lines)


def splits_of(rows: list[dict[str, object]]) -> set[str]:
    """Returns the splits of the rows."""
    return {str(row["split"]) for row in rows}


def summary(title: str, rows: list[dict[str, object]]) -> str:
    """Returns the summary of some rows in one line."""
    off = {m: [abs(float(row[m])) for row in rows if m in row] for m in ("msa", "cycles")}  # type: ignore[arg-type]
    same = sum(row["stays"] == 1.0 for row in rows)
    cycles = f"; in `cycles` {100 * fmean(off['cycles']):.2f} % in the mean" if off["cycles"] else ""
    return (
        f"{title}: {len(rows)} programs; bytes alike {100 * fmean(float(r['bytes']) for r in rows):.2f} %, "  # type: ignore[arg-type]
        f"uses {100 * fmean(float(r['uses']) for r in rows):.2f} %; all stays the same in {same}; "  # type: ignore[arg-type]
        f"|latency difference| under `msa` {100 * fmean(off['msa']):.2f} % in the mean, "
        f"{100 * median(off['msa']):.2f} % in the median, {100 * max(off['msa']):.2f} % at most{cycles}."
    )


def main() -> None:
    """Prints the tables, and writes them to the page on request."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--guess", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    if arguments.guess and arguments.write:
        parser.error("--write writes the table with what the log tells; leave out --guess")
    rows, replays = [], []
    for name in arguments.workloads or names():
        program = load(name)
        if program.production is None:
            continue
        if arguments.guess:
            program = without_facts(program)
        rows.append(measure(program, split(name)) | {"target": program.target.name})
        if arguments.variants:
            replays += [(name, *entry) for entry in replay(program)]
        print(render(rows[-1:]).splitlines()[2], flush=True)
    text = render(rows)
    if replays:
        off = np.abs([entry[2] for entry in replays])
        worst = max(replays, key=lambda entry: abs(entry[2]))
        text += (
            f"\n- Other settings of the flag grid: {len(replays)} replays; |latency difference| under `msa` "
            f"{100 * off.mean():.2f} % in the mean, {100 * np.median(off):.2f} % in the median, "
            f"{100 * (off < 0.01).mean():.0f} % of them below 1 %; the worst is {100 * worst[2]:+.1f} % "
            f"({worst[0]}, `{worst[1]}`)."
        )
    print(text)
    if arguments.write:
        tables = [("table", ["", *text.splitlines(), ""])]
        page = fill_marks(PAGE.read_text(encoding="utf-8"), tables, "benchmarks/xla_solver/measure.py", PAGE)
        write_atomically(PAGE, page.encode())


if __name__ == "__main__":
    main()
