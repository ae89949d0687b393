"""Copy windows: the instructions during which a prefetch may use the HBM time that they leave idle."""

from ..compiled.kernel import routine
from .state import State
from .tables import Tables


@routine
def find_window(tables: Tables, state: State, need: float, due: int, earliest: int) -> tuple[int, int, int, float]:
    """Searches backwards from instruction `due` for a window that hides a copy of `need` HBM seconds.

    Copies drain first in, first out, so the idle time of a window must not belong to a copy that is issued later and
    due earlier: where the search crosses the issue of one, the supply is counted anew.

    Returns:
      The latest start whose window hides the copy, and a start whose window hides it with the slack that the tables ask
      for; -2 for none. Then start and idle seconds of the stretch next to `due` that lies behind every earlier copy's
      issue.
    """
    supply = 0.0
    near_supply, near_start = 0.0, due - 1
    near = True
    found, wide = -2, -2
    start = due - 1
    while True:
        # Invariant: `supply` counts instructions start + 1 .. due - 1, or those since the last crossing.
        if found == -2 and supply >= need:
            found = start
        if supply >= need * tables.rates.slack:
            wide = start
            break
        if start <= earliest or state.step[start].prefetches >= tables.limits.prefetches:
            wide = start if found > -2 else -2
            break
        if state.step[start + 1].issued < due:
            if near:
                near = False
                near_supply, near_start = supply, start
            supply = 0.0
        supply += state.step[start].idle_s
        start -= 1
    if near:
        near_supply, near_start = supply, start
    return found, wide, near_start, near_supply


@routine
def stall_seconds(state: State, missing: float) -> float:
    """Returns the seconds that `missing` HBM seconds take while pending write-backs share HBM."""
    pending = 0.0
    for k in range(state.now.queue_head, state.now.queue_tail):
        pending += state.queue[k].seconds
    return missing + min(missing, pending)
