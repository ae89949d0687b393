"""The packing problems that `measure.py` compares packers on, by name."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.packing.csv_file import read_csv
from mallocmuzero.env.packing.generate import crossed, guillotine, pinwheels, skyline
from mallocmuzero.env.packing.problem import Packing, make_packing
from mallocmuzero.env.packing.repack import packing_of
from mallocmuzero.env.workloads import load, names


def of_folder(folder: Path) -> Iterator[tuple[str, Packing]]:
    """Yields the problem of each file `NAME.CAPACITY.csv` of a folder, as MiniMalloc's benchmarks are named.

    Raises:
      UserError: the folder has no such file.
    """
    paths = sorted(path for path in folder.glob("*.*.csv") if path.name.split(".")[-2].isdecimal())
    if not paths:
        raise UserError(f"--instances {folder}: holds no file NAME.CAPACITY.csv")
    for path in paths:
        items = read_csv(path)
        name, capacity, _ = path.name.rsplit(".", 2)
        yield name, make_packing(items.lower, items.upper, items.size, int(capacity))


# Few sizes, so that many items are equal and can be crossed; of thirty seeds three do not fit.
_CROSSED_ITEMS, _CROSSED_TIMES, _CROSSED_CAPACITY, _CROSSINGS = 30, 24, 16, 4


def generated(sizes: list[int], seeds: int) -> Iterator[tuple[str, Packing]]:
    """Yields cuts of each size, which fit, and six times as many crossed ones of one size, of which some do."""
    for size in sizes:
        for seed in range(seeds):
            yield f"straight cuts {size}", guillotine(size, np.random.default_rng(seed)).packing
            yield f"pinwheels {size}", pinwheels(size // 4, np.random.default_rng(seed)).packing
            yield f"skylines {size}", skyline(size, np.random.default_rng(seed)).packing
    for seed in range(6 * seeds):
        generator = np.random.default_rng(seed)
        small = skyline(_CROSSED_ITEMS, generator, _CROSSED_TIMES, _CROSSED_CAPACITY)
        yield "crossed", crossed(small, _CROSSINGS, generator)


def production() -> Iterator[tuple[str, Packing]]:
    """Yields the residencies of XLA's mappings, in the real fast memory and in no more than their load."""
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
