"""Compares best fit, the exact packer and MiniMalloc: how often each fits, memory, and processor time.

    python -m benchmarks.packing.measure [--seconds S] [--seeds N] [--sizes N ...] [--json FILE]
        [--instances FOLDER | --production | --repack] [--minimalloc PROGRAM]

Instances are rectangles without a hole, so that the load is the capacity at every moment: straight cuts, pinwheels and
skylines, which fit, and crossed ones, which may not. `--instances` takes files instead, such as those in
benchmarks/packing/challenging; `--production` the residencies of XLA's mappings. `--minimalloc` runs that executable on
the same problems, where its files can say them. `--repack` does nothing but forget the offsets of the production
mappings, repack them, slices included, and verify them. `python -m benchmarks.packing.page` makes a page of what --json
wrote.
"""

import argparse
import json
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.packing.pack import FEASIBLE, INFEASIBLE, pack
from mallocmuzero.env.packing.problem import Packing, make_packing
from mallocmuzero.env.packing.repack import groups, repack
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.workloads import load, names

from . import minimalloc
from .instances import generated, of_folder, production
from .table import COLUMNS, Row, summary


def measure(packing: Packing, seconds: float, program: Path | None) -> Row:
    """Returns the figures of one instance; those of MiniMalloc are None where it was not run."""
    begin = time.process_time()
    packed = pack(packing, seconds)
    row: Row = {
        "items": packing.items,
        "capacity": packing.capacity,
        "load": packed.load,
        "best_fit": packed.best_fit_peak,
        "status": packed.status,
        "method": packed.method,
        "nodes": packed.nodes,
        "processor_seconds": time.process_time() - begin,
        "minimalloc_status": None,
        "minimalloc_processor_seconds": None,
    }
    if program is not None and minimalloc.takes(packing):
        answer = minimalloc.run(program, packing, seconds)
        row |= {"minimalloc_status": answer.status, "minimalloc_processor_seconds": answer.seconds}
        if {packed.status, answer.status} == {FEASIBLE, INFEASIBLE}:
            raise RuntimeError(f"pack says {packed.status}, {program} says {answer.status}")
    return row


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
    parser.add_argument("--instances", type=Path, metavar="FOLDER", help="files NAME.CAPACITY.csv instead")
    parser.add_argument("--production", action="store_true", help="XLA's production mappings instead")
    parser.add_argument("--minimalloc", type=Path, metavar="PROGRAM", help="an executable of MiniMalloc")
    parser.add_argument("--repack", action="store_true", help="only repack XLA's production mappings")
    arguments = parser.parse_args()
    if arguments.repack:
        repack_production(arguments.seconds)
        return
    # Loads the kernels, so that no instance pays for them.
    pack(make_packing([0, 0], [1, 1], [1, 1], 2), rules=False)
    if arguments.instances is not None:
        instances = of_folder(arguments.instances)
    else:
        instances = production() if arguments.production else generated(arguments.sizes, arguments.seeds)
    rows: dict[str, list[Row]] = {}
    try:
        for name, packing in instances:
            rows.setdefault(name, []).append(measure(packing, arguments.seconds, arguments.minimalloc))
    except UserError as error:
        parser.error(str(error))
    table = Table()
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for cells in summary(rows):
        table.add_row(*cells)
    Console(width=150).print(table)
    print("Seconds are processor time, means; a search ends after --seconds on the clock.")
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
