"""Study of one program under both cost models: times, kinds of instruction, benefits of fast memory, flag settings."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # `scipy.stats` loads where it is first used: it takes half a second
from numpy.typing import NDArray

from mallocmuzero.env.physics.cost import CYCLES, MODELS, MSA, instruction_times
from mallocmuzero.env.physics.cycles import least_cycles, marginal_cycles
from mallocmuzero.env.physics.objective import latencies
from mallocmuzero.env.program.program import Program

KINDS = {
    "compute-bound fusion": "#0072B2",
    "memory-bound fusion": "#E69F00",
    "copy, reshape, slice": "#D55E00",
    "gather, scatter, dynamic slice": "#CC79A7",
    "other": "#999999",
}
_MOVES = {"copy", "reshape", "slice", "transpose", "bitcast-convert", "concatenate", "pad", "broadcast", "iota"}
# Relative differences up to this count as none.
NOTHING = 1e-3


def kind_of(program: Program, t: int) -> str:
    """Returns the kind of an instruction: its operation, and for a fusion its bound in HBM under `msa`."""
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
    """Figures of one program. Seconds count loop trips.

    Attributes:
      program: the program; it has a cycle table and a production mapping.
      kinds: `[T]` kinds of instruction.
      run_s: `[T]` seconds by cost model under the production mapping.
      production: steady seconds by cost model.
      floor_cycles: sum of the least cycles seen of each instruction, relative to production latency with its waits.
      variants: `(msa, cycles)` of each compilation of the flag grid, relative to the default.
      access_rank, buffer_rank: Spearman correlation between the models of the seconds that accesses and buffers save.
      against: share of the `msa` benefit in accesses that cost time under `cycles`.
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
    may = program.access_allowed
    buffers = [np.bincount(program.access_buffer, weights=b, minlength=program.num_buffers) for b in (msa, cycles)]
    somewhere = program.fast_allowed & ((buffers[0] > 0) | (buffers[1] != 0))
    against = msa[may & (cycles < -NOTHING * np.abs(cycles).max(initial=0.0))]
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
    """Returns `[A]` weighted seconds that each access saves in fast memory, under `msa` and under `cycles`.

    Under `msa` the access is fast alone; under `cycles` the mean of alone and with all others fast is taken.
    """
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
    return float(scipy.stats.spearmanr(a, b).statistic)


def instruction_seconds(
    studies: Sequence[Study], kind: str | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `[n]` seconds under `msa` and `cycles` of the instructions that cost time under both."""
    pairs = []
    for s in studies:
        chosen = np.array([kind in (None, k) for k in s.kinds], bool)
        chosen &= (s.run_s[MSA] > 0) & (s.run_s[CYCLES] > 0)
        pairs.append((s.run_s[MSA][chosen], s.run_s[CYCLES][chosen]))
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])
