"""Candidates: those that serve nearly the same bytes come last."""

from dataclasses import replace

import numpy as np

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
