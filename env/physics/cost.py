"""Cost models: seconds of each instruction under a placement.

`msa` is the model that XLA's memory space assignment optimises (XLA: `CostAnalysis::GetInstructionElapsed`):
`max(compute, memory)`, where bytes served from fast memory move at its bandwidth and all others at HBM's, one after the
other.

`cycles` is the estimate of XLA's code generator divided by the clock: a table of what compilations have shown,
completed where they have not (`cycles.py`). The table does not give the time that HBM is busy. This is taken to be the
time that the bytes from HBM need, or the whole instruction if that is shorter.
"""

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from .cycles import exact_share, instruction_cycles, least_cycles

MSA = "msa"
CYCLES = "cycles"
MODELS = (MSA, CYCLES)


def check_model(model: str) -> None:
    """Raises `UserError` unless `model` names a cost model."""
    if model not in MODELS:
        raise UserError(f"cost model {model!r} is not known; choose one of {', '.join(MODELS)}")


def available_models(program: Program) -> tuple[str, ...]:
    """Returns the cost models that can price `program`: `cycles` needs a cycle table and a known clock."""
    return MODELS if program.cycles is not None and program.target.clock_hz > 0 else (MSA,)


def instruction_times(
    program: Program, target: Target, access_fast: NDArray[np.bool_], model: str = MSA
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the seconds that each instruction runs, and the seconds of them that it keeps HBM busy.

    Args:
      program: the program.
      target: the hardware; the program's own for a real mapping.
      access_fast: `[A]` accesses served from fast memory.
      model: name of the cost model.

    Returns:
      Two `[T]` arrays of seconds for one execution of the instruction (loop trips do not count).

    Raises:
      UserError: the cost model is not known, or the program has no cycle table.
    """
    check_model(model)
    fast_bytes = np.bincount(
        program.access_instruction,
        weights=program.access_bytes * access_fast,
        minlength=program.num_instructions,
    )
    fast_bytes = np.minimum(fast_bytes, program.bytes_total)
    hbm_s = (program.bytes_total - fast_bytes) / target.hbm_bandwidth
    if model == CYCLES:
        run_s = instruction_cycles(program, access_fast)[0] * cycle_s(program, target)
        return run_s, np.minimum(run_s, hbm_s)
    return np.maximum(program.compute_s, hbm_s + fast_bytes / target.fast_bandwidth), hbm_s


def cycle_s(program: Program, target: Target) -> float:
    """Returns the seconds of one cycle. Raises `UserError` if the target's clock is not known."""
    if not target.clock_hz > 0:
        raise UserError(
            f"program {program.name!r}: the clock of target {target.name!r} is not known, so cycles are no seconds; "
            "give `target.clock_hz`, or take the cost model or objective `msa`"
        )
    return 1.0 / target.clock_hz


def exact(program: Program, mapping: Mapping) -> float:
    """Returns the share of a mapping's `cycles` time, waits aside, that was looked up and not completed.

    Raises:
      UserError: the program has no cycle table.
    """
    replaced = mapping.copies[:, 7]
    return exact_share(program, mapping.access_fast, replaced[replaced >= 0])


def latency_without_copies(program: Program, target: Target, access_fast: NDArray[np.bool_], model: str = MSA) -> float:
    """Returns the seconds of a program whose copies cost nothing."""
    run_s, _ = instruction_times(program, target, access_fast, model)
    return float(run_s @ program.weight)


def all_hbm_latency(program: Program, target: Target, model: str = MSA) -> float:
    """Returns the seconds of the program with everything in HBM."""
    return latency_without_copies(program, target, np.zeros(program.num_accesses, bool), model)


def floor_latency(program: Program, target: Target, model: str = MSA) -> float:
    """Returns a lower bound in seconds: each instruction at its fastest, copies free.

    Under `msa` an instruction is fastest with all its buffers in fast memory that may be there; under `cycles`, which
    is not monotonic, with the least cycles seen, or fewer if a completion may give fewer.

    Raises:
      UserError: the cost model is not known, or the program has no cycle table.
    """
    if model == CYCLES:
        return float(least_cycles(program) @ program.weight) * cycle_s(program, target)
    return latency_without_copies(program, target, program.access_allowed, model)
