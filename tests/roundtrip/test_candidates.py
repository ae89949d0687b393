"""Candidates: those that serve nearly the same bytes come last."""

from dataclasses import replace

import numpy as np

from mallocmuzero.env.program.compiler_flags import BANDWIDTH, KEEPS, ORDER, PREFETCHES
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.candidates import translated_candidates
from mallocmuzero.roundtrip.translate import Translation


def flipped(mapping: Mapping, accesses: int) -> Mapping:
    fast = mapping.access_fast.copy()
    fast[:accesses] ^= True
    return replace(mapping, access_fast=fast)


def test_nearly_alike_candidates_come_where_there_are_no_others() -> None:
    production = load("resnet50-b32-v4").production
    assert production is not None
    count = len(production.access_fast)
    mappings = {"order": flipped(production, count // 2), "order+starts": flipped(production, count // 2 + 1)}
    mappings |= {"starts": flipped(production, count // 4), "default": production}
    found = [
        Translation(kind, {}, mapping, judged_s, judged_s, 1)
        for judged_s, (kind, mapping) in zip(np.linspace(0.9, 1.0, 4).tolist(), mappings.items(), strict=True)
    ]
    assert [candidate.kind for candidate in translated_candidates(found)] == ["order", "order+starts", "starts"]
    assert [candidate.kind for candidate in translated_candidates(found, 2)] == ["order", "starts"]
    assert len(translated_candidates(found, 3)) == 3


def test_one_candidate_names_nothing_and_one_keeps_nothing() -> None:
    production = load("resnet50-b32-v4").production
    assert production is not None
    count = len(production.access_fast)
    kinds = {
        "keeps": {KEEPS: "k"},
        "keeps+starts": {KEEPS: "k", PREFETCHES: "p"},
        "order": {ORDER: "o"},
        "flags": {BANDWIDTH: "0.5"},
        "default": {},
    }
    found = [
        Translation(kind, options, flipped(production, count // (2 + place)), 0.1 * place, 0.1 * place, 1)
        for place, (kind, options) in enumerate(kinds.items())
    ]
    assert [candidate.kind for candidate in translated_candidates(found, 2)] == ["keeps", "flags"]
    assert [candidate.kind for candidate in translated_candidates(found, 3)] == ["keeps", "keeps+starts", "flags"]
    assert [candidate.kind for candidate in translated_candidates(found, 1)] == ["keeps"]
    named = [one for one in found if one.kind != "flags"]
    assert [candidate.kind for candidate in translated_candidates(named, 2)] == ["keeps", "order"]
