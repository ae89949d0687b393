"""Studies the two cost models against each other on every program with a cycle table, and writes the page.

    python -m benchmarks.cost_models.measure [WORKLOAD ...] [--page PAGE.md] [--picture PICTURE.png]

Where they disagree and by how much, in which kinds of instruction; what XLA loses in cycles by optimising its own
model; how well unseen pairs of the cycle tables are completed. Between its markers the page is written anew; the rest
of it is left alone.
"""

import argparse
import dataclasses
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from mallocmuzero.env.physics.cost import CYCLES, MODELS, MSA, available_models, instruction_times
from mallocmuzero.env.physics.cycles import fit_savings, instruction_cycles, least_cycles, marginal_cycles
from mallocmuzero.env.physics.objective import latencies
from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.env.viewer.style import STYLE
from mallocmuzero.env.workloads import load, names
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import spearmanr

ROOT = Path(__file__).parents[2]
KINDS = {
    "compute-bound fusion": "#0072B2",
    "memory-bound fusion": "#E69F00",
    "copy, reshape, slice": "#D55E00",
    "gather, scatter, dynamic slice": "#CC79A7",
    "other": "#999999",
}
_MOVES = {"copy", "reshape", "slice", "transpose", "bitcast-convert", "concatenate", "pad", "broadcast", "iota"}
# Differences below this share are none.
_NOTHING = 1e-3


def kind_of(program: Program, t: int) -> str:
    """Returns the kind of an instruction: what it does, and for a fusion what bounds it in HBM by MSA's account."""
    name, opcode = program.instruction_names[t], program.opcodes[t]
    if re.search(r"gather|scatter|dynamic|sort", f"{name} {opcode}"):
        return "gather, scatter, dynamic slice"
    if opcode in _MOVES:
        return "copy, reshape, slice"
    if opcode in ("fusion", "convolution", "dot"):
        bound = program.compute_s[t] >= program.bytes_total[t] / program.target.hbm_bandwidth
        return "compute-bound fusion" if bound else "memory-bound fusion"
    return "other"


@dataclass(frozen=True, eq=False)
class Study:
    """What is known of one program. Seconds count loop trips.

    Attributes:
      program: the program; it has a cycle table and a production mapping.
      kinds: `T` kinds of instruction.
      run_s: `[T]` seconds by cost model under the production mapping.
      production: steady seconds by cost model.
      floor_cycles: sum of the least cycles seen of each instruction, relative to production's latency, waits included.
      variants: `(msa, cycles)` of each compilation of the flag grid, relative to the default.
      access_rank, buffer_rank: Spearman correlation of what accesses and buffers save under either model.
      against: share of `msa` benefit in accesses that `cycles` says cost time.
    """

    program: Program
    kinds: list[str]
    run_s: dict[str, NDArray[np.float64]]
    production: dict[str, float]
    floor_cycles: float
    variants: list[tuple[float, float]]
    access_rank: float
    buffer_rank: float
    against: float


def study(program: Program) -> Study:
    """Studies one program."""
    assert program.production is not None
    fast = program.production.access_fast
    run_s = {m: instruction_times(program, program.target, fast, m)[0] * program.weight for m in MODELS}
    replaced = program.production.copies[:, 7]
    for seconds in run_s.values():
        seconds[replaced[replaced >= 0]] = 0.0
    production = {m: s for m, s in latencies(program, program.production).items() if s is not None}
    default = program.variants[0].latency_s if program.variants else {}
    variants = [
        (v.latency_s[MSA] / default[MSA], v.latency_s[CYCLES] / default[CYCLES])  # type: ignore[operator]
        for v in program.variants
        if all(v.latency_s.get(m) and default.get(m) for m in MODELS)
    ]
    least = least_cycles(program) * program.weight
    least[replaced[replaced >= 0]] = 0.0
    clock = program.target.clock_hz
    msa, cycles = access_benefits(program)
    may = program.fast_allowed[program.access_buffer]
    buffers = [np.bincount(program.access_buffer, weights=b, minlength=program.num_buffers) for b in (msa, cycles)]
    somewhere = program.fast_allowed & ((buffers[0] > 0) | (buffers[1] != 0))
    against = msa[may & (cycles < -_NOTHING * np.abs(cycles).max(initial=0.0))]
    return Study(
        program=program,
        kinds=[kind_of(program, t) for t in range(program.num_instructions)],
        run_s=run_s,
        production=production,
        floor_cycles=float(least.sum()) / clock / production[CYCLES],
        variants=variants,
        access_rank=_rank(msa[may], cycles[may]),
        buffer_rank=_rank(buffers[0][somewhere], buffers[1][somewhere]),
        against=float(against.sum() / msa[may].sum()) if msa[may].sum() > 0 else 0.0,
    )


def access_benefits(program: Program) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `[A]` weighted seconds that each access saves alone under `msa`, and under `cycles` (mean of alone and
    with all others fast)."""
    step, target = program.access_instruction, program.target
    nothing = np.zeros(program.num_accesses, bool)
    in_hbm = instruction_times(program, target, nothing)[0][step]
    total = program.bytes_total[step]
    fast = np.minimum(program.access_bytes, total)
    alone = np.maximum(program.compute_s[step], (total - fast) / target.hbm_bandwidth + fast / target.fast_bandwidth)
    first, last = marginal_cycles(program)
    return (in_hbm - alone) * program.weight[step], (first + last) / 2 / target.clock_hz * program.weight[step]


def _rank(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    if len(a) < 3 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(spearmanr(a, b).statistic)


def rows_of(program: Program) -> Iterator[tuple[float, NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64]]]:
    """Yields every row of the cycle table: how often it runs, `[K]` bytes moved, `[P, K]` placements, `[P]` cycles."""
    table = program.cycles
    assert table is not None
    starts = program.access_start
    for row in range(table.num_rows):
        members = np.flatnonzero(table.row == row)
        if not members.size:
            continue
        begin, end = starts[members[0]], starts[members[0] + 1]
        first, last = table.row_start[row], table.row_start[row + 1]
        masks = table.pair_fast[first:last]
        placements = np.array([[mask >> k & 1 for k in range(end - begin)] for mask in masks], bool)
        yield (
            float(program.weight[members].sum()),
            program.access_bytes[begin:end],
            placements.reshape(len(masks), end - begin),
            table.pair_cycles[first:last].astype(np.float64),
        )


Completion = Callable[[NDArray[np.float64], NDArray[np.bool_], NDArray[np.float64], NDArray[np.bool_]], float]


def _additive(moved: NDArray[Any], placements: NDArray[Any], cycles: NDArray[Any], asked: NDArray[Any]) -> float:
    base, saving = fit_savings(moved, placements, cycles)
    return base - float(saving[asked].sum())


def _nearest(moved: NDArray[Any], placements: NDArray[Any], cycles: NDArray[Any], asked: NDArray[Any]) -> float:
    return float(cycles[np.argmin((placements ^ asked) @ (moved + 1e-9 * moved.max(initial=1.0)))])


COMPLETIONS: dict[str, Completion] = {
    "additive savings, by bytes (chosen)": _additive,
    "nearest placement seen, by bytes": _nearest,
    "mean of the row": lambda moved, placements, cycles, asked: float(cycles.mean()),
    "the row's dearest": lambda moved, placements, cycles, asked: float(cycles.max()),
}


def cross_validate(programs: Sequence[Program]) -> dict[str, NDArray[np.float64]]:
    """Leaves out every seen pair in turn, but those with nothing fast, which every table has.

    Returns:
      For every completion `[n, 2]`: true cycles and estimate, both weighted by how often the row runs. Rows of fewer
      than three pairs tell nothing: what is left of them is one value.
    """
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for program in programs:
        for weight, moved, placements, cycles in rows_of(program):
            if len(cycles) < 3:
                continue
            for left in np.flatnonzero(placements.any(axis=1)):
                rest = np.arange(len(cycles)) != left
                low, high = cycles[rest].min(), cycles[rest].max()
                for name, complete in COMPLETIONS.items():
                    estimate = complete(moved, placements[rest], cycles[rest], placements[left])
                    points[name].append((weight * cycles[left], weight * float(np.clip(estimate, low, high))))
    return {name: np.array(values) for name, values in points.items()}


def leave_mappings_out(programs: Sequence[Program]) -> list[tuple[str, float, float]]:
    """Leaves out, for every mapping of the flag grid that its program keeps, all pairs that production does not have.

    Returns:
      For each: the program, the share of the mapping's cycles that is then completed, and the error of its sum.
    """
    results = []
    for program in programs:
        table, production = program.cycles, program.production
        assert table is not None
        assert production is not None
        kept = pairs_of(program, production)
        for variant in program.variants:
            if variant.mapping is None:
                continue
            new = pairs_of(program, variant.mapping) - kept
            pairs = zip(zip(table.pair_row.tolist(), table.pair_fast, strict=True), table.pair_cycles, strict=True)
            less = build_table(table.row, {pair: int(cycles) for pair, cycles in pairs if pair not in new})
            fast, replaced = variant.mapping.access_fast, variant.mapping.copies[:, 7]
            runs = program.weight.copy()
            runs[replaced[replaced >= 0]] = 0.0
            true = instruction_cycles(program, fast)[0] @ runs
            guess, seen = instruction_cycles(dataclasses.replace(program, cycles=less), fast)
            results.append(
                (program.name, 1 - float((guess * seen) @ runs / (guess @ runs)), float(guess @ runs / true - 1))
            )
    return results


def pairs_of(program: Program, mapping: Mapping) -> set[tuple[int, int]]:
    """Returns the pairs of the cycle table that a mapping asks for."""
    table, starts = program.cycles, program.access_start
    assert table is not None
    pairs = set()
    for t, row in enumerate(table.row.tolist()):
        fast = np.flatnonzero(mapping.access_fast[starts[t] : starts[t + 1]])
        pairs.add((row, sum(1 << int(k) for k in fast)))
    return pairs


def upside_down(programs: Sequence[Program]) -> tuple[int, int, float, str]:
    """Returns how many pairs of seen placements, one containing the other, get slower by being faster placed; of how
    many; the largest ratio, and where."""
    slower = compared = 0
    worst, where = 1.0, ""
    for program in programs:
        table = program.cycles
        assert table is not None
        for row in range(table.num_rows):
            first, last = table.row_start[row], table.row_start[row + 1]
            for i in range(first, last):
                for j in range(first, last):
                    less, more = table.pair_fast[i], table.pair_fast[j]
                    if less != more and less & more == less:
                        compared += 1
                        ratio = table.pair_cycles[j] / max(table.pair_cycles[i], 1)
                        slower += ratio > 1 + _NOTHING
                        if ratio > worst:
                            t = int(np.flatnonzero(table.row == row)[0])
                            worst, where = float(ratio), f"`{program.instruction_names[t]}` of {program.name}"
    return slower, compared, worst, where


def tables(studies: list[Study]) -> str:
    """Returns the generated part of the page."""
    programs = [s.program for s in studies]
    return "\n\n".join(
        (
            f"{len(studies)} programs, {sum(p.num_instructions for p in programs):,} instructions, "
            f"{sum(p.cycles.num_pairs for p in programs if p.cycles):,} pairs in "
            f"{sum(p.cycles.num_rows for p in programs if p.cycles):,} rows, from "
            f"{sum(p.cycles.compilations for p in programs if p.cycles):,} compilations; "
            f"{sum(p.cycles.ambiguous for p in programs if p.cycles)} pairs were seen with more than one value.",
            _kind_table(studies),
            _program_table(studies),
            _variant_lines(studies),
            _cross_validation_table(programs),
        )
    )


def _ratios(studies: list[Study], kind: str | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `[n]` seconds under `msa` and `cycles` of the instructions that cost time under both."""
    pairs = []
    for s in studies:
        chosen = np.array([kind in (None, k) for k in s.kinds], bool)
        chosen &= (s.run_s[MSA] > 0) & (s.run_s[CYCLES] > 0)
        pairs.append((s.run_s[MSA][chosen], s.run_s[CYCLES][chosen]))
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def _kind_table(studies: list[Study]) -> str:
    lines = [
        "### By kind of instruction, under XLA's own mapping",
        "",
        "| kind | instructions | share of msa time | share of cycles time | time they place elsewhere | "
        "cycles / msa, by time | quartiles by instruction |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    # Each program counts alike: its times are relative to its own sums.
    share: dict[str, dict[str | None, float]] = {m: defaultdict(float) for m in (*MODELS, "elsewhere")}
    for s in studies:
        relative = {m: s.run_s[m] / s.run_s[m].sum() for m in MODELS}
        relative["elsewhere"] = np.abs(relative[MSA] - relative[CYCLES]) / 2
        for what, values in relative.items():
            share[what][None] += float(values.sum()) / len(studies)
            for kind, value in zip(s.kinds, values, strict=True):
                share[what][kind] += float(value) / len(studies)
    for kind in (*KINDS, None):
        msa, cycles = _ratios(studies, kind)
        if not len(msa):
            continue
        low, middle, high = np.percentile(cycles / msa, (25, 50, 75))
        shares = " | ".join(f"{100 * values[kind]:.1f} %" for values in share.values())
        lines.append(
            f"| {kind or '**all**'} | {len(msa):,} | {shares} | "
            f"{cycles.sum() / msa.sum():.2f} | {low:.2f}, {middle:.2f}, {high:.2f} |"
        )
    return "\n".join(lines)


def _program_table(studies: list[Study]) -> str:
    lines = [
        "### By program",
        "",
        "| program | target | production, µs: msa | cycles | cycles / msa | rank correlation of benefits: accesses | "
        "buffers | msa benefit that cycles calls a loss | best of the grid: msa | cycles | least cycles seen |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for s in studies:
        msa, cycles = s.production[MSA] * 1e6, s.production[CYCLES] * 1e6
        best = [f"{100 * min(v[k] for v in s.variants):.1f} %" if s.variants else "-" for k in range(2)]
        lines.append(
            f"| {s.program.name} | {s.program.target.name} | {msa:,.1f} | {cycles:,.1f} | {cycles / msa:.2f} | "
            f"{_number(s.access_rank)} | {_number(s.buffer_rank)} | {100 * s.against:.1f} % | {best[0]} | {best[1]} | "
            f"{100 * s.floor_cycles:.1f} % |"
        )
    return "\n".join(lines)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"


def _variant_lines(studies: list[Study]) -> str:
    variants = [(s.program.name, msa, cycles) for s in studies for msa, cycles in s.variants]
    moved = [v for v in variants if abs(v[1] - 1) > _NOTHING and abs(v[2] - 1) > _NOTHING]
    against = [v for v in moved if (v[1] - 1) * (v[2] - 1) < 0]
    slower, compared, worst, where = upside_down([s.program for s in studies])
    chosen = [(s.program.name, min(s.variants)[1], min(v[1] for v in s.variants)) for s in studies if s.variants]
    missed = [c for c in chosen if c[1] - c[2] > _NOTHING]
    lines = [
        "### What the models disagree on",
        "",
        f"- **Sign.** Of {len(moved)} compilations with other flags that change both models' latency by more than "
        f"0.1 %, {len(against)} are better under one and worse under the other, on "
        f"{len({name for name, *_ in against})} programs.",
    ]
    if against:
        name, msa, cycles = max(against, key=lambda v: abs(v[1] - 1) + abs(v[2] - 1))
        lines.append(
            f"  The largest: {name}, {100 * (msa - 1):+.1f} % under msa, {100 * (cycles - 1):+.1f} % in cycles."
        )
    lines.append(
        f"- **Choice.** Choosing the flags by msa instead of by cycles costs cycles on {len(missed)} of {len(chosen)} "
        "programs" + (f", up to {100 * max(c[1] - c[2] for c in missed):.1f} %." if missed else ".")
    )
    lines.append(
        f"- **Direction.** Of {compared:,} pairs of placements seen, one of which has all that the other has in fast "
        f"memory and more, {slower} ({100 * slower / max(compared, 1):.1f} %) are slower for it"
        + (f"; the worst is {worst:.2f} times as slow: {where}." if slower else ".")
    )
    return "\n".join(lines)


def _cross_validation_table(programs: Sequence[Program]) -> str:
    points = cross_validate(programs)
    lines = [
        "### Completing pairs that were not seen: leave one out",
        "",
        "| completion | pairs | median error of an instruction | mean error, weighted by cycles | error of the sum |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, values in points.items():
        true, guess = values.T
        error = guess - true
        lines.append(
            f"| {name} | {len(values):,} | {100 * np.median(np.abs(error) / np.maximum(true, 1.0)):.1f} % | "
            f"{100 * np.abs(error).sum() / true.sum():.1f} % | {100 * error.sum() / true.sum():+.1f} % |"
        )
    left_out = leave_mappings_out(programs)
    if left_out:
        shares, errors = (np.array([row[k] for row in left_out]) for k in (1, 2))
        worst = left_out[int(np.argmax(np.abs(errors)))]
        lines += [
            "",
            f"Whole mappings left out ({len(left_out)} of the flag grid; of each, every pair that production does not "
            f"have): {100 * shares.mean():.0f} % of their cycles are then completed, and the error of their sum is "
            f"{100 * np.abs(errors).mean():.1f} % in the mean, {100 * np.median(np.abs(errors)):.1f} % in the median, "
            f"{100 * errors.mean():+.1f} % with its sign; the worst is {100 * worst[2]:+.1f} % ({worst[0]}).",
        ]
    return "\n".join(lines)


def draw(studies: list[Study], path: Path) -> None:
    """Draws the picture."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(14, 10), layout="constrained")
        FigureCanvasAgg(figure)
        (scatter, spread), (signs, losses) = figure.subplots(2, 2)
        for kind, colour in KINDS.items():
            msa, cycles = _ratios(studies, kind)
            scatter.loglog(msa * 1e6, cycles * 1e6, ".", ms=3, alpha=0.5, color=colour, label=kind)
        ends = np.array(scatter.get_xlim())
        for factor, style in ((1, "-"), (2, "--")):
            scatter.plot(ends, factor * ends, style, color="#555555", lw=0.8, label=f"cycles = {factor} msa")
        scatter.set_xlabel("µs under msa")
        scatter.set_ylabel("µs under cycles")
        scatter.set_title("Every instruction under XLA's mapping", loc="left")
        scatter.legend(fontsize=8, frameon=False)
        shown = [(k, np.divide(*reversed(_ratios(studies, k)))) for k in reversed(KINDS)]
        shown = [(k, ratio) for k, ratio in shown if len(ratio)]
        spread.boxplot([np.log10(ratio) for _, ratio in shown], vert=False, whis=(5, 95), showfliers=False)
        spread.set_yticks(range(1, len(shown) + 1), [k for k, _ in shown])
        ticks = [0.1, 0.3, 1, 3, 10, 30, 100]
        spread.set_xticks(np.log10(ticks), [f"{tick:g}" for tick in ticks])
        spread.axvline(0, color="#555555", lw=0.8)
        spread.set_xlabel("cycles / msa, per instruction (box: quartiles, whiskers: 5 % and 95 %)")
        spread.set_title("How far apart, by kind of instruction", loc="left")
        for s in studies:
            if s.variants:
                signs.plot(
                    *zip(*[(100 * (m - 1), 100 * (c - 1)) for m, c in s.variants], strict=True), "o", ms=4, alpha=0.7
                )
        signs.axhline(0, color="#555555", lw=0.8)
        signs.axvline(0, color="#555555", lw=0.8)
        signs.set_xlabel("change under msa, %")
        signs.set_ylabel("change in cycles, %")
        signs.set_title("XLA under other flags, against its default: off the diagonal the models disagree", loc="left")
        order = sorted(studies, key=lambda s: s.floor_cycles)
        places = np.arange(len(order))
        losses.barh(
            places, [100 * (1 - s.floor_cycles) for s in order], color="#BBD7EA", label="least of every instruction"
        )
        best = [100 * (1 - min((v[1] for v in s.variants), default=1.0)) for s in order]
        losses.barh(places, best, height=0.4, color="#0072B2", label="best of the flag grid")
        losses.set_yticks(places, [s.program.name for s in order], fontsize=7)
        losses.set_xlabel("cycles left on the table by XLA's default, %")
        losses.set_title("What XLA loses by optimising its own model", loc="left")
        losses.legend(fontsize=8, frameon=False)
        figure.savefig(path, dpi=120)


def main() -> int:
    """Writes page and picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", nargs="*", help="names or files; all committed workloads without any")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "cost-models.md")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "results" / "cost-models.png")
    arguments = parser.parse_args()
    programs = [load(name) for name in arguments.workload or names()]
    usable = [p for p in programs if CYCLES in available_models(p) and p.production is not None]
    for program in programs:
        if program not in usable:
            print(f"left out: {program.name} has no cycle table or no production mapping", file=sys.stderr)
    if not usable:
        print("no program has a cycle table and a production mapping", file=sys.stderr)
        return 1
    studies = [study(program) for program in usable]
    text = arguments.page.read_text(encoding="utf-8") if arguments.page.exists() else ""
    begin, end = "<!-- generated: begin -->", "<!-- generated: end -->"
    head, tail = text.partition(begin)[0], text.partition(end)[2]
    write_atomically(arguments.page, f"{head}{begin}\n\n{tables(studies)}\n\n{end}{tail}".encode())
    draw(studies, arguments.picture)
    print(f"wrote {arguments.page} and {arguments.picture}: {len(studies)} programs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
