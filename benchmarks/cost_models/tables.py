"""Tables of docs/cost-models.md: kinds of instruction, programs, disagreements, completion of unseen pairs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mallocmuzero.env.physics.cost import CYCLES, MODELS, MSA
from mallocmuzero.env.program.cycle_table import BY_TIME, WITHIN_SEEN
from mallocmuzero.env.program.program import Program

from .completion import cross_validate, leave_mappings_out, never_fast, upside_down
from .study import KINDS, NOTHING, Study, instruction_seconds


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


def _kind_table(studies: list[Study]) -> str:
    lines = [
        "### By kind of instruction, under XLA's own mapping",
        "",
        "| kind | instructions | share of msa time | share of cycles time | time they place elsewhere | "
        "cycles / msa, by time | quartiles by instruction |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    # Each program counts equally: its times are relative to its own sums.
    share: dict[str, dict[str | None, float]] = {m: defaultdict(float) for m in (*MODELS, "elsewhere")}
    for s in studies:
        relative = {m: s.run_s[m] / s.run_s[m].sum() for m in MODELS}
        relative["elsewhere"] = np.abs(relative[MSA] - relative[CYCLES]) / 2
        for what, values in relative.items():
            share[what][None] += float(values.sum()) / len(studies)
            for kind, value in zip(s.kinds, values, strict=True):
                share[what][kind] += float(value) / len(studies)
    for kind in (*KINDS, None):
        msa, cycles = instruction_seconds(studies, kind)
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
    moved = [v for v in variants if abs(v[1] - 1) > NOTHING and abs(v[2] - 1) > NOTHING]
    against = [v for v in moved if (v[1] - 1) * (v[2] - 1) < 0]
    slower, compared, worst, where = upside_down([s.program for s in studies])
    chosen = [(s.program.name, min(s.variants)[1], min(v[1] for v in s.variants)) for s in studies if s.variants]
    missed = [c for c in chosen if c[1] - c[2] > NOTHING]
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
    lines = [
        "### Completing pairs that were not seen",
        "",
        "One pair left out at a time:",
        "",
        *_error_rows(cross_validate(programs)),
        "",
        "Of each pair, and each access of it that is fast and moves more than a MiB, all pairs left out in which that "
        "access is fast. So asks a search about a value that no compilation has had in fast memory:",
        "",
        *_error_rows(never_fast(programs)),
    ]
    for completion, called in ((BY_TIME, "by the time of bytes"), (WITHIN_SEEN, "within the range seen")):
        left_out = leave_mappings_out(programs, completion)
        if left_out:
            shares, errors = (np.array([row[k] for row in left_out]) for k in (1, 2))
            worst = left_out[int(np.argmax(np.abs(errors)))]
            lines += [
                "",
                f"Whole mappings left out, completed {called} ({len(left_out)} of the flag grid; of each, every pair "
                f"that production does not have): {100 * shares.mean():.0f} % of their cycles are then completed, and "
                f"the error of their sum is {100 * np.abs(errors).mean():.1f} % in the mean, "
                f"{100 * np.median(np.abs(errors)):.1f} % in the median, {100 * errors.mean():+.1f} % with its sign; "
                f"the worst is {100 * worst[2]:+.1f} % ({worst[0]}).",
            ]
    return "\n".join(lines)


def _error_rows(points: Mapping[str, NDArray[np.float64]]) -> list[str]:
    lines = [
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
    return lines
