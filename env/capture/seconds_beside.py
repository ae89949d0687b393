"""What one of the compiler's estimates counts for copies that run beside other instructions (pipeline step 4)."""

from .extract import Extraction
from .log import CompilerLog


def seconds_beside(extraction: Extraction, log: CompilerLog) -> float:
    """Returns the seconds that the estimate without copies counts for the instructions that asynchronous ones run.

    The other estimate, like every model, counts none. Operands count as fast where they have an allocation, and results
    as being in HBM.
    """
    target, values = extraction.program.target, extraction.values
    allocated = {use for allocation in log.allocations for use in allocation.uses if use[0] in values.elsewhere}
    near: dict[str, float] = {}
    for use in allocated:
        near[use[0]] = near.get(use[0], 0.0) + log.operand_bytes.get(use, 0.0)
    seconds = 0.0
    for name, start in values.elsewhere.items():
        fast, total = near.get(name, 0.0), log.total_bytes.get(name, 0.0)
        memory = (total - fast) / target.hbm_bandwidth + fast / target.fast_bandwidth
        passes = extraction.passes.get(values.flattened.loop_of.get(start, -1), 1)
        seconds += max(log.compute_s.get(name, 0.0), memory) * passes
    return seconds
