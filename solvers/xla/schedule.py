"""The compiler's schedule, rebuilt from a program: times, their seconds, and their loops (XLA: `HloLiveRange`)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...env.program.assignment_facts import assignment_facts
from ...env.program.program import RESULT, Program
from ...env.program.target import Target
from .cost_analysis import bandwidths, moved_bytes
from .options import KEPT


class Times(NamedTuple):
    """The times of a schedule. Shapes: `S` times, `N` buffers.

    Attributes:
      seconds: `[S]` that each time takes with everything in HBM.
      loop: `[S]` innermost loop, or -1.
      inputs: `[N]` when an input is defined, -1 for other buffers.
      end: the last time.
    """

    seconds: NDArray[np.float64]
    loop: NDArray[np.int64]
    inputs: NDArray[np.int64]
    end: int


@lru_cache(maxsize=KEPT)
def schedule(program: Program, target: Target) -> Times:
    """Returns the compiler's schedule; it is kept, so do not change it.

    Inputs come first. A time between two instructions of the program belongs to one that only renames a buffer; it
    takes `compiler["step_s"]`.
    """
    at = program.schedule_index.astype(np.int64)
    hbm = np.float32(bandwidths(target)[0])
    seconds = np.maximum(program.compute_s.astype(np.float32), moved_bytes(program)[1].astype(np.float32) / hbm)
    outputs = np.flatnonzero(program.is_output)
    last = program.num_instructions - 1
    results = program.access_buffer[program.access_start[last] :][
        program.access_kind[program.access_start[last] :] == RESULT
    ]
    alone = len(outputs) == 1 and outputs[0] in results
    facts = assignment_facts(program)
    end = facts.end if facts is not None else int(at[-1]) + (not alone)
    first = int(at[0])
    at_time = np.zeros(end + 1)
    at_time[first:] = float(program.compiler.get("step_s", 0.0) or 0.0)
    if facts is not None:
        at_time[facts.idle] = 0.0
    at_time[at] = seconds
    loop = np.full(end + 1, -1, np.int64)
    for index, (a, b) in enumerate(zip(program.loop_first, program.loop_last, strict=True)):
        loop[at[a] : at[b] + 1] = index
    inputs = np.full(program.num_buffers, -1, np.int64)
    given = np.flatnonzero(program.definition < 0)
    inputs[given] = np.minimum(np.arange(len(given)), first - 1)
    return Times(at_time, loop, inputs, end)


def depth(program: Program, loop: NDArray[np.int64], repeated: bool = False) -> NDArray[np.int64]:
    """Returns `[S]` how many loops are around each time, from its innermost `loop[S]`.

    Conditionals and their branches count, unless only what is `repeated` does (XLA: `while_only`).
    """
    counts = np.array([kind == "loop" or not repeated for kind in program.loop_kinds], np.int64)
    deep = np.zeros(len(program.loop_parent) + 1, np.int64)
    for index, parent in enumerate(program.loop_parent):
        deep[index] = counts[index] + (deep[parent] if parent >= 0 else 0)
    deep[-1] = 0
    return deep[loop]
