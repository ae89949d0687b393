"""The game's clock: seconds of one instruction under the placement decided so far.

The clock weighs both cost models (`physics.objective.Clock`). A placement is given by the sum of the bytes served from
fast memory, which is all that `msa` needs, and for `cycles` by its key in the cycle table and the sum of its savings.
"""

from numba import njit

from ..physics.instruction_seconds import cycles_seconds, msa_seconds
from .columns import IF_BYTES, IF_COMPUTE, IF_CYCLES, IF_LEAST, IF_MOST, R_CYCLES, R_FAST, R_HBM, R_MSA
from .tables import Tables


@njit(cache=True, forceinline=True)
def run_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns the seconds that instruction `t` runs, by the game's clock."""
    seconds = 0.0
    if tables.rates[R_MSA] > 0.0:
        seconds = tables.rates[R_MSA] * msa_run_seconds(tables, t, fast_bytes)
    if tables.rates[R_CYCLES] > 0.0:
        seconds += tables.rates[R_CYCLES] * cycles_run_seconds(tables, t, key, saving)
    return seconds


@njit(cache=True, forceinline=True)
def msa_run_seconds(tables: Tables, t: int, fast_bytes: float) -> float:
    """Returns the seconds that instruction `t` runs under `msa`."""
    return msa_seconds(
        tables.instruction_f[t, IF_COMPUTE],
        tables.instruction_f[t, IF_BYTES],
        fast_bytes,
        tables.rates[R_HBM],
        tables.rates[R_FAST],
    )


@njit(cache=True, forceinline=True)
def cycles_run_seconds(tables: Tables, t: int, key: int, saving: float) -> float:
    """Returns the seconds that instruction `t` runs under `cycles`."""
    return cycles_seconds(
        tables.cycle_keys,
        tables.cycle_s,
        key,
        tables.instruction_f[t, IF_CYCLES],
        saving,
        tables.instruction_f[t, IF_LEAST],
        tables.instruction_f[t, IF_MOST],
    )


@njit(cache=True, forceinline=True)
def idle_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns the seconds that HBM is idle while instruction `t` runs, by the game's clock."""
    total = tables.instruction_f[t, IF_BYTES]
    hbm = (total - min(fast_bytes, total)) / tables.rates[R_HBM]
    return max(0.0, run_seconds(tables, t, fast_bytes, key, saving) - hbm)
