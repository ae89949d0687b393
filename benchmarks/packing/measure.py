"""Compares best fit with the exact packer: how often each fits, the memory that best fit needs, and the time.

    python -m benchmarks.packing.measure [--seconds S] [--seeds N] [--sizes N ...] [--json FILE] [--repack]

Instances are rectangles cut without a hole, by straight cuts and by pinwheels, so that the load is the capacity at
every moment, like the challenging instances of the MiniMalloc paper; and the residencies of XLA's production mappings,
packed into the real fast memory and into no more than their load. `--repack` does nothing but forget the offsets of the
production mappings, repack them, slices included, and verify them.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mallocmuzero.env.packing.generate import guillotine, pinwheels
from mallocmuzero.env.packing.pack import pack
from mallocmuzero.env.packing.problem import Packing, make_packing
from mallocmuzero.env.packing.repack import groups, packing_of, repack
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.workloads import load, names


def instances(sizes: list[int], seeds: int) -> Iterator[tuple[str, Packing]]:
    """Yields the name and the problem of each instance."""
    for size in sizes:
        for seed in range(seeds):
            yield f"straight cuts {size}", guillotine(size, np.random.default_rng(seed)).packing
            yield f"pinwheels {size}", pinwheels(size // 4, np.random.default_rng(seed)).packing
    for name in names():
        program = load(name)
        if program.production is not None:
            packing, _ = packing_of(program, program.production, program.target)
            yield f"production {name}", packing
            # The real problem has reserved bytes, which the load alone leaves out.
            tight = make_packing(
                packing.span_lower,
                packing.span_upper,
                packing.size,
                packing.load,
                packing.alignment,
                item=packing.span_item,
            )
            yield f"production {name}, load only", tight


def repack_production(seconds: float) -> None:
    """Prints the repacking of each production mapping without its offsets."""
    table = Table("program", "residencies", "slices", "repacked", "by", "seconds")
    done, mappings = 0, 0
    for name in names():
        program = load(name)
        mapping = program.production
        if mapping is None:
            continue
        residencies = mapping.residencies.copy()
        residencies[:, 3] = (groups(mapping) + 10) * 2**40
        begin = time.perf_counter()
        forgetful = Mapping(mapping.program_sha256, mapping.access_fast, residencies, mapping.copies)
        repacked = repack(program, forgetful, seconds=seconds)
        took = time.perf_counter() - begin
        slices = (mapping.residencies[:, 5] - mapping.residencies[:, 4] < program.size[mapping.residencies[:, 0]]).sum()
        mappings, done = mappings + 1, done + (repacked.mapping is not None)
        method = "rules for slices" if repacked.packed is None else repacked.packed.method
        said = "yes" if repacked.mapping is not None else repacked.reason
        table.add_row(name, str(len(residencies)), str(slices), said, method, f"{took:.2f}")
    Console(width=150).print(table)
    print(f"{done} of {mappings} repacked")


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="limit per instance")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[50, 100, 200, 400])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repack", action="store_true", help="only repack XLA's production mappings")
    arguments = parser.parse_args()
    if arguments.repack:
        repack_production(arguments.seconds)
        return
    rows: dict[str, list[dict[str, object]]] = {}
    for name, packing in instances(arguments.sizes, arguments.seeds):
        packed = pack(packing, arguments.seconds)
        row = {
            "items": packing.items,
            "capacity": packing.capacity,
            "load": packed.load,
            "best_fit": packed.best_fit_peak,
            "status": packed.status,
            "method": packed.method,
            "nodes": packed.nodes,
            "seconds": packed.seconds,
        }
        rows.setdefault(name, []).append(row)
    table = Table(
        "instances",
        "items",
        "load / capacity",
        "best fit / load, mean (worst)",
        "best fit fits",
        "fits",
        "proved not to",
        "undecided",
        "seconds, median",
    )
    for name, found in rows.items():
        over = [r["best_fit"] / r["load"] for r in found]
        table.add_row(
            name,
            f"{np.mean([r['items'] for r in found]):.0f}",
            f"{np.mean([r['load'] / r['capacity'] for r in found]):.3f}",
            f"{np.mean(over):.3f} ({max(over):.3f})",
            *(
                f"{sum(test(r) for r in found)}/{len(found)}"
                for test in (
                    lambda r: r["best_fit"] <= r["capacity"],
                    lambda r: r["status"] == "feasible",
                    lambda r: r["status"] == "infeasible",
                    lambda r: r["status"] == "undecided",
                )
            ),
            f"{np.median([r['seconds'] for r in found]):.2f}",
        )
    Console(width=150).print(table)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
