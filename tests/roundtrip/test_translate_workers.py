"""Translating in several processes: the best of all is kept, and a worker that dies is an error."""

from pathlib import Path

import numpy as np
import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip import translate_workers
from mallocmuzero.roundtrip.encoding import DEFAULT
from mallocmuzero.roundtrip.translate import translate
from mallocmuzero.roundtrip.translate_workers import translate_with_workers
from mallocmuzero.solvers.common.exchange import Exchange
from mallocmuzero.solvers.xla.decoder import Decoder


def test_the_best_of_all_workers_is_kept() -> None:
    tiny = load("tiny")
    judge = make_judge(tiny)
    wanted = Decoder(tiny).decode(priority=-np.arange(tiny.num_buffers))
    found = translate_with_workers(judge, wanted, 6.0, workers=2)
    kinds = [one.kind for one in found]
    assert len(set(kinds)) == len(kinds)
    assert DEFAULT in kinds
    assert [one.score_s for one in found] == sorted(one.score_s for one in found)
    assert found[0].judged_s <= judge.judge(wanted)
    assert len({one.decodes for one in found}) == 1
    for one in found:
        assert judge.judge(one.mapping) == pytest.approx(one.judged_s, rel=1e-12)
        assert not verify(tiny, tiny.target, one.mapping)


def test_a_process_goes_on_from_the_best_that_any_has_found(tmp_path: Path) -> None:
    program = load("alexnet-train-b128")
    judge = make_judge(program)
    assert program.production is not None
    alone = translate(judge, program.production, np.inf, decodes=60)
    long = translate(judge, program.production, np.inf, decodes=3000, exchange=Exchange(tmp_path, 1, 2))
    assert long[0].score_s < alone[0].score_s
    ((shown_s, _),) = Exchange(tmp_path, 0, 2).finds()
    assert shown_s >= long[0].score_s
    together = translate(judge, program.production, np.inf, decodes=60, exchange=Exchange(tmp_path, 0, 2))
    assert together[0].score_s <= shown_s < alone[0].score_s


def test_a_worker_that_dies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load("tiny")
    judge = make_judge(tiny)
    assert tiny.production is not None
    monkeypatch.setattr(translate_workers, "REQUEST", "another.json")
    with pytest.raises(UserError, match=r"worker 2 of 2 of the translation failed: .*request\.json.*fewer --workers"):
        translate_with_workers(judge, tiny.production, 0.5, workers=2)
