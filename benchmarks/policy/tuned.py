"""XLA's own mapping under the best of its flags, as the policy's opponent."""

from functools import cache

from mallocmuzero.env import workloads

from ..solvers.references import reference
from .problems import Problem


@cache
def tuned_ratio(problem: Problem) -> float | None:
    """Returns the latency of the best of XLA's mappings under the flag grid, as a share of production's.

    None for a problem that XLA itself has not mapped: with less memory than the program was captured with, or repeated.
    """
    if problem.share != 1.0 or problem.times != 1:
        return None
    tuned: float | None = reference(workloads.load(problem.program), problem.objective)["tuned"]
    return tuned
