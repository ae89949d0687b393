"""How fast mappings are: one beside XLA's, the best of its flags, everything in HBM, and the bound."""

from typing import Any

from ...env.physics.cost import available_models
from ...env.physics.objective import OBJECTIVES, ROBUST, Judge, make_judge
from ...env.program.program import Program, all_hbm
from ...env.workloads.known_bounds import Known, known
from .program_view import Named


def figures(program: Program, mappings: list[Named]) -> dict[str, Any]:
    """Returns the rows of the ladder by objective, the slowest first.

    A row has the `ratio` to XLA's own mapping (to everything in HBM where there is none), and `us`, microseconds, null
    under `robust`, which is a ratio and no time. `role` is `ours` for the mapping that the page is about.
    """
    priced = [o for o in OBJECTIVES if o in available_models(program) or len(available_models(program)) > 1]
    bounds = known(program)
    return {objective: _ladder(make_judge(program, objective), mappings, bounds.get(objective)) for objective in priced}


def _ladder(judge: Judge, mappings: list[Named], bound: Known | None) -> list[dict[str, Any]]:
    base_s = judge.seconds(judge.baseline)

    def row(role: str, name: str, seconds: float) -> dict[str, Any]:
        us = None if judge.objective == ROBUST else seconds * 1e6
        return {"role": role, "name": name, "ratio": seconds / base_s if base_s > 0 else 1.0, "us": us}

    rows = [row("reference", "everything in HBM", judge.judge(all_hbm(judge.program)))]
    if judge.program.production is not None:
        rows.append(row("production", "XLA's default", base_s))
    tuned = judge.tuned()
    if tuned is not None:
        rows.append(row("flags", "XLA, best of its flags", judge.seconds(tuned)))
    for number, named in enumerate(mappings):
        if named.mapping is not judge.program.production:
            rows.append(row("mapping" if number else "ours", named.name, judge.judge(named.mapping)))
    if bound is not None:
        unit = base_s if judge.objective == ROBUST else 1.0
        # Known when bounds were sought: what the page is about may be better.
        if bound.best is not None and bound.best * unit < min(entry["ratio"] for entry in rows) * base_s:
            rows.append(row("known", "best mapping known", bound.best * unit))
        rows.append(row("bound", "bound: proved that no mapping is faster", bound.bound * unit))
    else:
        rows.append(row("floor", "floor: every instruction at its fastest, copies free", judge.floor_s()))
    return sorted(rows, key=lambda entry: -entry["ratio"])
