"""Seconds that one instruction runs, for compiled code: the cost models of `cost.py`, one instruction at a time.

The game prices each move with these functions, and the outcome of a finished game with the same ones.
"""

import numpy as np

from ..compiled.kernel import routine


@routine
def msa_seconds(
    compute_s: float, bytes_total: float, fast_bytes: float, hbm_bandwidth: float, fast_bandwidth: float
) -> float:
    """Returns the seconds of an instruction that moves `fast_bytes` of its `bytes_total` through fast memory (XLA:
    `CostAnalysis::GetInstructionElapsed`). Bandwidths are in bytes per second."""
    fast = min(fast_bytes, bytes_total)
    memory = (bytes_total - fast) / hbm_bandwidth + fast / fast_bandwidth
    return max(compute_s, memory)


@routine
def cycles_seconds(
    cycle_keys: np.ndarray, cycle_s: np.ndarray, key: int, base_s: float, saving_s: float, least_s: float, most_s: float
) -> float:
    """Returns the seconds of an instruction by the code generator.

    Args:
      cycle_keys: `[H]` keys of an open-addressing hash table, `H` a power of two; 0 marks an empty slot.
      cycle_s: `[H]` seconds.
      key: the instruction and the set of its fast accesses.
      base_s, saving_s, least_s, most_s: for a key that is not in the table: seconds with nothing fast, the sum of the
        savings of the fast accesses, and the bounds of the result.
    """
    last = len(cycle_keys) - 1
    slot = key & last
    while cycle_keys[slot] != 0:
        if cycle_keys[slot] == key:
            return cycle_s[slot]
        slot = (slot + 1) & last
    return min(max(base_s - saving_s, least_s), most_s)
