"""Chooses the candidates: the sets of compiler options that the real compiler is asked to judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..env.physics.objective import Judge
from ..env.program.compiler_flags import KEEPS, NAMING, flag_grid
from ..env.program.mapping import Mapping as ProgramMapping
from .encoding import DEFAULT
from .translate import Translation

# Mappings that differ in a smaller share of the accesses count as nearly the same.
_NEARLY = 0.005


@dataclass(frozen=True, eq=False)
class Candidate:
    """One set of options for the real compiler to judge.

    Attributes:
      kind: the options in a few words.
      options: compiler options beside those of the capture.
      foreseen: the mapping that our own decoder makes of them, or None.
      captured: whether the compiler itself, not our decoder, made `foreseen`, when the program was captured.
    """

    kind: str
    options: Mapping[str, str]
    foreseen: ProgramMapping | None = None
    captured: bool = False


def translated_candidates(translations: Sequence[Translation], most: int | None = None) -> list[Candidate]:
    """Returns the translations foreseen to be better than the compiler's default, best first, each mapping once.

    Args:
      translations: what `translate` returned.
      most: how many to return at most; None for all. A translation that serves nearly the same bytes as a better one is
        returned only if no others are left: if the decoder errs in one, it errs in both. If possible, one candidate
        keeps nothing in HBM, because another version of the compiler may refuse keeps, and one names nothing of the
        program, because it may still gain after the program has changed.
    """
    (default_s,) = [found.judged_s for found in translations if found.kind == DEFAULT]
    candidates: list[Candidate] = []
    for found in translations:
        seen = [other.foreseen for other in candidates if other.foreseen is not None]
        if found.judged_s < default_s and not any(_alike(found.mapping, other) for other in seen):
            candidates.append(Candidate(found.kind, found.options, found.mapping))
    if most is not None:
        candidates = _diverse(candidates, most)
    chosen, others = candidates[:most], candidates[most:] if most else []
    for has_less in (_keeps_nothing, _names_nothing):
        missing = [candidate for candidate in others if has_less(candidate)]
        if missing and len(chosen) > 1 and not any(has_less(candidate) for candidate in chosen):
            chosen[-1] = missing[0]
    return chosen


def _keeps_nothing(candidate: Candidate) -> bool:
    return KEEPS not in candidate.options


def _names_nothing(candidate: Candidate) -> bool:
    return not NAMING.keys() & candidate.options.keys()


def _diverse(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Returns the candidates in order, but first up to `most` that differ from each other, then the others."""
    ahead: list[Candidate] = []
    for candidate in candidates:
        if len(ahead) < most and not any(_nearly_alike(candidate, other) for other in ahead):
            ahead.append(candidate)
    return [*ahead, *(candidate for candidate in candidates if candidate not in ahead)]


def _nearly_alike(one: Candidate, other: Candidate) -> bool:
    assert one.foreseen is not None
    assert other.foreseen is not None
    return float(np.mean(one.foreseen.access_fast != other.foreseen.access_fast)) < _NEARLY


def grid_candidates(judge: Judge) -> list[Candidate]:
    """Returns the best of the flag grid, unless that is the default; the whole grid if it was not captured."""
    if not judge.program.variants:
        return [Candidate(f"flags {name}", options) for name, options in flag_grid().items() if options]
    best = judge.tuned_variant()
    if best is None or not best.options:
        return []
    return [Candidate("best of the flag grid", best.options, best.mapping, captured=True)]


def _alike(one: ProgramMapping, other: ProgramMapping) -> bool:
    return (
        np.array_equal(one.access_fast, other.access_fast)
        and np.array_equal(one.residencies, other.residencies)
        and np.array_equal(one.copies, other.copies)
    )
