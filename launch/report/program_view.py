"""A program and its mappings as the page's data: columns of numbers for the pictures.

Times are microseconds of simulated, steady execution, each loop body counted once; sizes and offsets are bytes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.physics.simulator import simulate
from ...env.program.extents import extents
from ...env.program.live import live_bytes
from ...env.program.mapping import COPY_FIELDS, RESIDENCY_FIELDS, Mapping
from ...env.program.program import Program
from ...env.viewer.traffic import traffic

# Decimals of microseconds: finer than a picture shows, and a fraction of the digits.
_DECIMALS = 4


class Named(NamedTuple):
    """A mapping and its name in the page."""

    name: str
    mapping: Mapping


def program_view(program: Program) -> dict[str, Any]:
    """Returns the page's data on a program itself. Columns: `T` instructions, `N` buffers, `A` accesses."""
    kind = np.where(program.definition < 0, 0, np.where(program.is_output, 2, 1))
    live = [live_bytes(program, kind == number) for number in range(3)]
    return {
        "name": program.name,
        "family": program.family,
        "sha256": program.sha256,
        "target": program.target.name,
        "fast_bytes": program.target.fast_bytes,
        "hbm_bandwidth": program.target.hbm_bandwidth,
        "instructions": {
            "name": list(program.instruction_names),
            "opcode": list(program.opcodes),
            "reserved": program.reserved.tolist(),
        },
        "buffers": {
            "name": list(program.buffer_names),
            "size": program.size.tolist(),
            "kind": kind.tolist(),
            "split": np.flatnonzero(program.is_split).tolist(),
        },
        "accesses": {
            "instruction": program.access_instruction.tolist(),
            "buffer": program.access_buffer.tolist(),
            "kind": program.access_kind.tolist(),
        },
        "loops": {
            "kind": program.loop_kinds,
            "trips": program.loop_trips.tolist(),
            "first": program.loop_first.tolist(),
            "last": program.loop_last.tolist(),
        },
        "live": [layer.astype(np.int64).tolist() for layer in live],
    }


def mapping_view(program: Program, named: Named, model: str) -> dict[str, Any]:
    """Returns the page's data on a mapping. Columns: `T` instructions, `R` residencies, `C` copies, `K` moments."""
    mapping = named.mapping
    line = simulate(program, program.target, mapping, model)
    end = line.begin_s[-1:] + line.run_s[-1:] + line.wait_s[-1]
    used = traffic(program.target, mapping, line)
    taken = extents(program, mapping.residencies)
    copies = {name: mapping.copies[:, column].tolist() for column, name in enumerate(COPY_FIELDS)}
    return {
        "name": named.name,
        "latency_us": line.latency_s * 1e6,
        "waited_us": line.waited_s * 1e6,
        "edges": _us(np.concatenate([line.begin_s, end])),
        "run": _us(line.run_s),
        "wait": _us(line.wait_s),
        "compute": _us(line.compute_s),
        "fast": np.flatnonzero(mapping.access_fast).tolist(),
        "residencies": {name: taken[:, column].tolist() for column, name in enumerate(RESIDENCY_FIELDS)},
        "copies": {**copies, "begin": _us(line.copy_begin_s), "finish": _us(line.copy_end_s)},
        "traffic": {
            "time": _us(used.seconds),
            "instructions": _us(used.instructions),
            "prefetches": _us(used.prefetches),
            "write_backs": _us(used.write_backs),
        },
    }


def _us(seconds: NDArray[np.float64]) -> list[float]:
    values: list[float] = np.round(seconds * 1e6, _DECIMALS).tolist()
    return values
