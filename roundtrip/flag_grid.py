"""The best of the compiler's flag grid, as candidate and as opponent."""

from ..env.physics.cost import MODELS
from ..env.physics.objective import Judge, make_judge
from ..env.program import compiler_flags
from ..env.program.program import Program
from ..env.program.variant import Variant
from .confirm import Candidate


def best_variant(judge: Judge) -> Variant | None:
    """Returns the variant of the flag grid that `Judge.tuned` is of; None where the grid was not captured."""
    tuned = judge.tuned()
    if tuned is not None:
        for variant in judge.program.variants:
            if all(variant.latency_s[model] == seconds for model, seconds in tuned.items()):
                return variant
    return None


def grid_candidates(judge: Judge) -> list[Candidate]:
    """Returns the best of the flag grid, unless it is the default; the whole grid where it was not captured."""
    if not judge.program.variants:
        return [Candidate(f"flags {name}", options) for name, options in compiler_flags.flag_grid().items() if options]
    best = best_variant(judge)
    if best is None or not best.options:
        return []
    return [Candidate("best of the flag grid", best.options, best.mapping)]


def flags_us(program: Program, objective: str | None = None) -> dict[str, float | None] | None:
    """Returns the latencies of the best of the flag grid in microseconds by cost model; None where it is not known."""
    best = best_variant(make_judge(program, objective))
    if best is None:
        return None
    return {model: None if (s := best.latency_s[model]) is None else s * 1e6 for model in MODELS}
