"""Seconds and bytes in the compiler's precision, whose rounding decides ties between buffers (XLA: `CostAnalysis`)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.program.program import Program
from ...env.program.target import Target

_GIB = 2**30
# Bytes per second of HBM, and the factor by which fast memory is faster. They reproduce the integers of the compiler's
# copy resources exactly, and all six digits of the benefits that it logs in at least 95 of 100 cases.
_EXACT: dict[str, tuple[float, float]] = {
    "v4": (457.5 * _GIB, 6.0),
    "v5e": (687.0 * _GIB, 22.5),
    "v5p": (2189.0 * _GIB, 7.7),
    "v6e": (1638.0e9, 13.0),
}
_ROUNDING = 1e-4


def bandwidths(target: Target) -> tuple[float, float]:
    """Returns the bytes per second of HBM and of fast memory, exact where the target's are the same but rounded."""
    hbm, ratio = _EXACT.get(target.name, (0.0, 0.0))
    known = abs(hbm - target.hbm_bandwidth) <= _ROUNDING * hbm
    if known and abs(hbm * ratio - target.fast_bandwidth) <= _ROUNDING * target.fast_bandwidth:
        return hbm, hbm * ratio
    return target.hbm_bandwidth, target.fast_bandwidth


def moved_bytes(program: Program) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns `[A]` bytes of accesses and `[T]` of instructions, exact where the file has six digits of them."""
    size = program.size[program.access_buffer].astype(float)
    moved = np.where(_alike(program.access_bytes, size), size, program.access_bytes)
    sums = np.bincount(program.access_instruction, weights=moved, minlength=program.num_instructions)
    return moved, np.where(_alike(program.bytes_total, sums), sums, program.bytes_total)


def _alike(values: NDArray[Any], exact: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns where values agree to six digits."""
    return np.abs(values - exact) <= 6e-6 * exact


def memory_s(program: Program, target: Target) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns `[A]` seconds that the instruction of an access moves bytes: all in HBM, and that access alone fast.

    In single precision, as in XLA (`CostAnalysis::GetInstructionElapsedDueToMemory`).
    """
    hbm, fast = (np.float32(bandwidth) for bandwidth in bandwidths(target))
    t = program.access_instruction
    access, total = moved_bytes(program)
    whole = total.astype(np.float32)[t]
    moved = np.minimum(access, total[t]).astype(np.float32)
    return whole / hbm, moved / fast + (whole - moved) / hbm


def gains(program: Program, target: Target) -> NDArray[np.float32]:
    """Returns `[A]` seconds that each access saves its instruction if it alone is served from fast memory."""
    memory, alone = memory_s(program, target)
    compute = program.compute_s.astype(np.float32)[program.access_instruction]
    saved: NDArray[np.float32] = np.maximum(compute, memory) - np.maximum(compute, alone)
    return saved
