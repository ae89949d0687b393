"""The game's clock: seconds of one instruction under the placement decided so far.

The clock weighs both cost models (`physics.objective.Clock`). A placement is given by the sum of the bytes served from
fast memory, which is all that `msa` needs, and for `cycles` by its key in the cycle table and the sum of its savings.
"""

from ..compiled.kernel import routine
from ..physics.instruction_seconds import cycles_seconds, msa_seconds
from .tables import Tables


@routine
def run_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns the seconds that instruction `t` runs, by the game's clock."""
    seconds = 0.0
    if tables.rates.msa > 0.0:
        seconds = tables.rates.msa * msa_run_seconds(tables, t, fast_bytes)
    if tables.rates.cycles > 0.0:
        seconds += tables.rates.cycles * cycles_run_seconds(tables, t, key, saving)
    return seconds


@routine
def msa_run_seconds(tables: Tables, t: int, fast_bytes: float) -> float:
    """Returns the seconds that instruction `t` runs under `msa`."""
    return msa_seconds(
        tables.instruction[t].compute_s,
        tables.instruction[t].bytes,
        fast_bytes,
        tables.rates.hbm,
        tables.rates.fast,
    )


@routine
def cycles_run_seconds(tables: Tables, t: int, key: int, saving: float) -> float:
    """Returns the seconds that instruction `t` runs under `cycles`."""
    return cycles_seconds(
        tables.cycle_keys,
        tables.cycle_s,
        key,
        tables.instruction[t].cycles_s,
        saving,
        tables.instruction[t].least_s,
        tables.instruction[t].most_s,
    )


@routine
def idle_seconds(tables: Tables, t: int, fast_bytes: float, key: int, saving: float) -> float:
    """Returns the seconds that HBM is idle while instruction `t` runs, by the game's clock."""
    total = tables.instruction[t].bytes
    hbm = (total - min(fast_bytes, total)) / tables.rates.hbm
    return max(0.0, run_seconds(tables, t, fast_bytes, key, saving) - hbm)
