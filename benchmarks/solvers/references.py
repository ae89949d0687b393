"""References of a program: production, tuned production, bound, split and size, which its runs are compared with."""

from collections.abc import Callable
from typing import Any

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads.known_bounds import judged_by, known

CONTENDED_HEADROOM = 0.01


def reference(program: Program, objective: str | None = None) -> dict[str, Any]:
    """Returns the references of a program. Ratios are to production; None stands for unknown."""
    judge = make_judge(program, objective)
    production_s, tuned = judge.production_s, judge.tuned()
    unit = 1.0 if judge.objective == "robust" else production_s
    found = known(program).get(judge.objective)
    return {
        "program": program.name,
        "program_sha256": program.sha256[:12],
        "judged_by": judged_by(judge),
        "objective": judge.objective,
        "split": workloads.split(program.name),
        "training": "training step" in workloads.workload(program.name).description,
        "accesses": program.num_accesses,
        "production_us": None if production_s is None else production_s * 1e6,
        "tuned": None if tuned is None or not production_s else judge.seconds(tuned) / production_s,
        "bound": found.bound / unit if found is not None and unit else None,
    }


def headroom(entry: dict[str, Any]) -> float | None:
    """Returns the share of tuned production latency that the bound leaves to win, or None without a bound."""
    if entry["bound"] is None:
        return None
    return max(0.0, 1.0 - float(entry["bound"]) / float(entry["tuned"] if entry["tuned"] is not None else 1.0))


def is_contended(program: Program, objective: str | None = None) -> bool:
    """Returns whether the bound leaves at least 1 % below tuned production."""
    left = headroom(reference(program, objective))
    return left is not None and left >= CONTENDED_HEADROOM


def programs_of(wanted: list[str], contended: Callable[[str], bool]) -> list[str]:
    """Returns names of programs, each once.

    Args:
      wanted: names of programs, of splits, or `contended`.
      contended: whether a program belongs to `contended`.
    """
    found: dict[str, None] = {}
    for what in wanted:
        if what in workloads.SPLITS:
            members = [name for name in workloads.names() if workloads.split(name) == what]
        elif what == "contended":
            members = [name for name in workloads.names() if contended(name)]
        else:
            members = [workloads.load(what).name]
        found.update(dict.fromkeys(members))
    return list(found)
