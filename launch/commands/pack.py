"""`mallocmuzero pack`: finds offsets for a list of buffers with known lives."""

import argparse
from pathlib import Path

from ..terminal.json_output import add_json_option, check_json, write_json


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser(
        "pack",
        help="find offsets for buffers with known lives",
        description="Packs the buffers of a CSV file (columns id,lower,upper,size; lives are half-open) into a memory, "
        "or proves that they do not fit. Exit status 1 if there is no solution, or none was found.",
    )
    parser.add_argument("file", metavar="FILE.csv", type=Path, help="the buffers")
    parser.add_argument("--capacity", required=True, type=int, metavar="BYTES", help="size of the memory")
    parser.add_argument("--alignment", type=int, default=1, metavar="BYTES", help="offsets are multiples of this")
    parser.add_argument("--seconds", type=float, default=60.0, metavar="S", help="limit of the search (60)")
    parser.add_argument("-o", "--output", type=Path, metavar="OUT.csv", help="the buffers with their offsets")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; returns 0 if the buffers are packed, else 1."""
    from ...env.errors import UserError
    from ...env.packing.csv_file import read_csv, write_csv
    from ...env.packing.pack import FEASIBLE, INFEASIBLE, pack
    from ...env.packing.problem import MOST_BYTES, make_packing
    from ...env.storage.destination import check_destination

    if not 1 <= arguments.capacity <= MOST_BYTES:
        raise UserError(f"--capacity {arguments.capacity} is no memory; give its bytes, at most {MOST_BYTES}")
    if not 1 <= arguments.alignment <= MOST_BYTES:
        raise UserError(f"--alignment {arguments.alignment} is none; give 1 or more, at most {MOST_BYTES}")
    if not arguments.seconds >= 0:
        raise UserError(f"--seconds {arguments.seconds} is no limit; give 0 or more")
    check_json(arguments)
    check_destination(arguments.output, "-o")
    items = read_csv(arguments.file)
    packing = make_packing(items.lower, items.upper, items.size, arguments.capacity, arguments.alignment)
    packed = pack(packing, arguments.seconds)
    peak = None if packed.offsets is None else int((packed.offsets + items.size).max(initial=0))
    if packed.offsets is not None and arguments.output is not None:
        write_csv(items, packed.offsets, arguments.output)
    if arguments.json is not None:
        result = {
            "status": packed.status,
            "method": packed.method,
            "buffers": len(items.ids),
            "capacity_bytes": arguments.capacity,
            "load_bytes": packed.load,
            "peak_bytes": peak,
            "best_fit_bytes": packed.best_fit_peak,
            "nodes": packed.nodes,
            "seconds": packed.seconds,
            "offsets": None if packed.offsets is None else dict(zip(items.ids, packed.offsets.tolist(), strict=True)),
        }
        write_json(result, arguments.json)
    if arguments.json != "-":
        figures = f"{len(items.ids)} buffers, load {packed.load}, best fit {packed.best_fit_peak}"
        how = f"{packed.method}, {packed.nodes} nodes, {packed.seconds:.2f} s"
        words = {FEASIBLE: f"packed into {peak} bytes", INFEASIBLE: "proved: they do not fit"}
        print(f"{words.get(packed.status, 'undecided: no solution found, none ruled out')} ({how}); {figures}")
    return 0 if packed.status == FEASIBLE else 1
