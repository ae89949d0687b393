"""The objective: latency under one cost model, or the worse of both relative to XLA's own mapping (`robust`)."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from ..errors import UserError
from ..program.mapping import Mapping
from ..program.program import Program
from ..program.target import Target
from ..program.variant import Variant
from .cost import CYCLES, MODELS, MSA, all_hbm_latency, available_models, cycle_s, floor_latency
from .cycles import cycle_model
from .simulator import simulate

ROBUST = "robust"
OBJECTIVES = (ROBUST, MSA, CYCLES)


def check_objective(objective: str) -> None:
    """Raises `UserError` unless `objective` names an objective."""
    if objective not in OBJECTIVES:
        raise UserError(f"objective {objective!r} is not known; choose one of {', '.join(OBJECTIVES)}")


def resolve(program: Program, objective: str | None = None) -> str:
    """Returns the objective to judge `program` by.

    Args:
      program: the program.
      objective: its name; None for `robust` where `cycles` can price the program, else `msa`.

    Raises:
      UserError: the objective is not known, or it needs a cycle table that the program lacks.
    """
    if objective is None:
        return ROBUST if CYCLES in available_models(program) else MSA
    check_objective(objective)
    if objective != MSA:
        cycle_model(program)
    return objective


@dataclass(frozen=True)
class Clock:
    """The clock of a game: `msa` times MSA's seconds plus `cycles` times those of the code generator."""

    msa: float = 1.0
    cycles: float = 0.0


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the mappings of one program.

    Under `robust` the larger of the two ratios to the baseline counts, expressed in seconds: that ratio times the
    baseline's `msa` latency. So under every objective less is better, and seconds over `production_s` are the ratio to
    production.

    Attributes:
      program, target: the problem.
      objective: one of `OBJECTIVES`.
      baseline: steady latency in seconds by cost model: of XLA's own mapping, or of everything in HBM if the program
        has none.
    """

    program: Program
    target: Target
    objective: str
    baseline: dict[str, float]

    @property
    def models(self) -> tuple[str, ...]:
        """The cost models that count."""
        return MODELS if self.objective == ROBUST else (self.objective,)

    @property
    def production_s(self) -> float | None:
        """Judged seconds of XLA's own mapping, or None."""
        return None if self.program.production is None else self.seconds(self.baseline)

    def latencies(self, mapping: Mapping) -> dict[str, float]:
        """Returns the steady latency of a mapping in seconds, for each cost model that counts."""
        return {model: simulate(self.program, self.target, mapping, model).latency_s for model in self.models}

    def ratio(self, latencies: dict[str, float]) -> float:
        """Returns the largest ratio to the baseline."""
        return max(
            latencies[model] / self.baseline[model] if self.baseline[model] > 0 else 1.0 for model in self.models
        )

    def seconds(self, latencies: dict[str, float]) -> float:
        """Returns the judged seconds of latencies by cost model."""
        if self.objective == ROBUST:
            return self.ratio(latencies) * self.baseline[MSA]
        return latencies[self.objective]

    def judge(self, mapping: Mapping) -> float:
        """Returns the judged seconds of a mapping; less is better."""
        return self.seconds(self.latencies(mapping))

    def tuned(self) -> dict[str, float] | None:
        """Returns the latencies in seconds of the best mapping of the compiler's flag grid; None if not known."""
        best = self.tuned_variant()
        return None if best is None else _known(best)

    def tuned_variant(self) -> Variant | None:
        """Returns the best compilation of the compiler's flag grid; None if the grid was not captured."""
        priced = [variant for variant in self.program.variants if set(self.models) <= set(_known(variant))]
        return min(priced, key=lambda variant: self.seconds(_known(variant)), default=None)

    def tuned_mapping(self) -> Mapping | None:
        """Returns the mapping of `tuned_variant`; None if there is none, or the file does not keep it."""
        best = self.tuned_variant()
        if best is None:
            return None
        return best.mapping if best.options else self.program.production

    def floor_s(self) -> float:
        """Returns a lower bound on the judged seconds of any mapping."""
        return self.seconds({model: floor_latency(self.program, self.target, model) for model in self.models})

    def clock(self, msa_share: float) -> Clock:
        """Returns the clock of games under this objective.

        By duality, minimising the larger ratio is minimising some weighted sum of both. So games of `robust` count
        `msa_share` of MSA's ratio to the baseline and the rest of the code generator's, in seconds of `msa`.
        """
        if self.objective == ROBUST:
            scale = self.baseline[MSA] / self.baseline[CYCLES] if self.baseline[CYCLES] > 0 else 0.0
            return Clock(msa_share, (1.0 - msa_share) * scale)
        return Clock(1.0, 0.0) if self.objective == MSA else Clock(0.0, 1.0)


def _known(variant: Variant) -> dict[str, float]:
    return {model: latency for model, latency in variant.latency_s.items() if latency is not None}


def make_judge(program: Program, objective: str | None = None, target: Target | None = None) -> Judge:
    """Returns the judge of a program.

    Args:
      program: the program.
      objective: one of `OBJECTIVES`; None for `robust` where `cycles` can price the program, else `msa`.
      target: the hardware; None for the program's own.

    Raises:
      UserError: the objective is not known, or the program has no cycle table, or its target no clock, where needed.
    """
    target = program.target if target is None else target
    objective = resolve(program, objective)
    models = MODELS if objective == ROBUST else (objective,)
    if CYCLES in models:
        cycle_s(program, target)
    known = _baselines.setdefault(program, {})
    for model in models:
        if (target, model) not in known:
            known[target, model] = _baseline_s(program, target, model)
    return Judge(program, target, objective, {model: known[target, model] for model in models})


# Baselines of programs in use, by target and cost model.
_baselines: WeakKeyDictionary[Program, dict[tuple[Target, str], float]] = WeakKeyDictionary()


def _baseline_s(program: Program, target: Target, model: str) -> float:
    if program.production is None:
        return all_hbm_latency(program, target, model)
    return simulate(program, target, program.production, model).latency_s


def latencies(program: Program, mapping: Mapping) -> dict[str, float | None]:
    """Returns the steady latency of a mapping in seconds by cost model; None where the program has no cycle table."""
    known = available_models(program)
    return {m: simulate(program, program.target, mapping, m).latency_s if m in known else None for m in MODELS}


def ratio(program: Program, mapping: Mapping, objective: str | None = None) -> float:
    """Returns a mapping's latency relative to XLA's own mapping (to everything in HBM if there is none).

    Raises:
      UserError: as `make_judge`.
    """
    judge = make_judge(program, objective)
    return judge.ratio(judge.latencies(mapping))


def better(program: Program, mapping: Mapping, than: Mapping, objective: str | None = None) -> bool:
    """Returns whether `mapping` is strictly better than another one.

    Raises:
      UserError: as `make_judge`.
    """
    judge = make_judge(program, objective)
    return judge.judge(mapping) < judge.judge(than)
