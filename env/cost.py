"""What an instruction costs under a placement: the swappable part of the physics.

`msa` is the cost model that XLA's memory space assignment optimises (XLA: `CostAnalysis::GetInstructionElapsed`):
`max(compute, memory)`, where bytes served from fast memory move at its bandwidth, all others at HBM's, one after the
other.
"""

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .program import Program
from .target import Target

MODELS = ("msa",)


def check_model(model: str) -> None:
    """Raises `UserError` unless `model` names a cost model."""
    if model not in MODELS:
        raise UserError(f"cost model {model!r} is not known; choose one of {', '.join(MODELS)}")


def instruction_times(
    program: Program, target: Target, access_fast: NDArray[np.bool_], model: str = "msa"
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns how long each instruction runs, and how much of that it keeps HBM busy.

    Args:
      program: the program.
      target: the hardware; the program's own for a real mapping.
      access_fast: `[A]` accesses served from fast memory.
      model: name of the cost model.

    Returns:
      Two `[T]` arrays of seconds for one execution of the instruction (loop trips do not count).

    Raises:
      UserError: the cost model is not known.
    """
    check_model(model)
    fast_bytes = np.bincount(
        program.access_instruction,
        weights=np.where(access_fast, program.access_bytes, 0.0),
        minlength=program.num_instructions,
    )
    fast_bytes = np.minimum(fast_bytes, program.bytes_total)
    hbm_s = (program.bytes_total - fast_bytes) / target.hbm_bandwidth
    return np.maximum(program.compute_s, hbm_s + fast_bytes / target.fast_bandwidth), hbm_s


def latency_without_copies(
    program: Program, target: Target, access_fast: NDArray[np.bool_], model: str = "msa"
) -> float:
    """Returns the seconds of a program whose copies cost nothing."""
    run_s, _ = instruction_times(program, target, access_fast, model)
    return float(run_s @ program.weight)


def all_hbm_latency(program: Program, target: Target, model: str = "msa") -> float:
    """Returns the seconds of the program with everything in HBM."""
    return latency_without_copies(program, target, np.zeros(program.num_accesses, bool), model)


def floor_latency(program: Program, target: Target, model: str = "msa") -> float:
    """Returns a lower bound in seconds: everything that may be in fast memory is, and copies are free."""
    return latency_without_copies(program, target, program.fast_allowed[program.access_buffer], model)
