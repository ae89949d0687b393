"""The two rounds of `tune`: the first is for cycles, and needs them to matter and time to learn them."""

from typing import Any, ClassVar, cast

import pytest

from mallocmuzero.env.capture.compiler import CODE
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip import rounds as module
from mallocmuzero.roundtrip.kept_time import Answers
from mallocmuzero.roundtrip.rounds import Rounds
from mallocmuzero.roundtrip.searcher import Found, Searcher


class Recording(Searcher):
    """Finds nothing, and notes the seed of every search."""

    seeds: ClassVar[list[int]] = []

    def find(self, program: Any, seconds: float, seed: int) -> Found:
        self.seeds.append(seed)
        return Found(cast(Any, None), [], {"solve": 1.0})


@pytest.mark.parametrize(
    ("objective", "compilation_s", "searches"), [("robust", 1.0, 1), ("msa", 1.0, 0), ("robust", 1000.0, 0)]
)
def test_the_first_round(monkeypatch: pytest.MonkeyPatch, objective: str, compilation_s: float, searches: int) -> None:
    program, seeds = load("tiny"), list[int]()
    monkeypatch.setattr(Recording, "seeds", seeds)
    monkeypatch.setattr(module, "translated_candidates", lambda translations, most: [])
    monkeypatch.setattr(module, "scout", lambda program, candidates, compiler, **options: (program, []))
    rounds = Rounds(
        Recording(objective, "anneal", {}),
        cast(Any, None),
        {CODE: compilation_s},
        Answers(0.0, 0.0),
        until=100.0,
        clock=lambda: 0.0,
    )
    assert rounds.scout(program, 7) == (program, [])
    assert seeds == [7] * searches
    assert ("scout" in rounds.seconds) == bool(searches)
