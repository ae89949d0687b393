"""Translation: a mapping that the compiler's algorithm can make is found again."""

from dataclasses import replace

import numpy as np
import pytest

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.compiler_flags import COLORS, KEEPS, NAMING, ORDER, PREFETCHES, REFUSED
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip import translate as translate_module
from mallocmuzero.roundtrip.candidates import translated_candidates
from mallocmuzero.roundtrip.comparison import realised
from mallocmuzero.roundtrip.translate import translate
from mallocmuzero.solvers.xla.decoder import Decoder


def test_the_compilers_own_mapping_needs_no_options() -> None:
    tiny = load("tiny")
    assert tiny.production is not None
    (found,) = translate(make_judge(tiny), tiny.production, decodes=1)
    assert (found.kind, found.options, found.decodes) == ("default", {}, 1)
    assert realised(tiny, tiny.production, found.mapping)["bytes"] == 1.0
    assert translated_candidates([found]) == []


def test_an_order_is_found_again() -> None:
    tiny = load("tiny")
    judge = make_judge(tiny)
    wanted = Decoder(tiny).decode(priority=-np.arange(tiny.num_buffers))
    assert tiny.production is not None
    runs = [translate(judge, wanted, 600.0, seed=3, decodes=400) for _ in range(2)]
    assert [found.options for found in runs[0]] == [found.options for found in runs[1]]
    assert runs[0][0].judged_s <= min(judge.judge(wanted), judge.judge(tiny.production))
    assert len({found.kind for found in runs[0]}) == len(runs[0]) >= 4
    for found in runs[0]:
        orders = found.options.get(ORDER, "").split("overrides {")[1:]
        across = [order for order in orders if "apply_to_cross_program_prefetches: true" in order]
        told = ["order"] * (len(orders) > len(across))
        told += ["starts"] * (PREFETCHES in found.options) + ["keeps"] * (KEEPS in found.options)
        told += ["cross"] * bool(across) + ["flags"] * bool(set(found.options) - {ORDER, PREFETCHES, KEEPS})
        assert found.kind == ("+".join(told) or "default")
    offered = translated_candidates(runs[0])
    assert offered[0].options == runs[0][0].options
    assert all(judge.judge(found.foreseen) < judge.judge(tiny.production) for found in offered if found.foreseen)
    few = translated_candidates(runs[0], 2)
    assert few[0].options == offered[0].options
    assert any(KEEPS not in candidate.options for candidate in few)


def test_what_stays_in_hbm_is_told() -> None:
    """No order alone makes this mapping: the compiler places every buffer that fits."""
    tiny = load("tiny")
    judge = make_judge(tiny)
    decoder = Decoder(tiny)
    priority = np.zeros(tiny.num_buffers)
    priority[np.argsort(-tiny.size)[:4]] = np.inf
    wanted = decoder.decode(priority)
    found = translate(judge, wanted, 600.0, decodes=200)
    told = [one for one in found if KEEPS in one.options]
    assert any(np.array_equal(one.mapping.access_fast, wanted.access_fast) for one in told) or min(
        one.judged_s for one in told
    ) < judge.judge(wanted)


def test_what_a_version_of_the_compiler_does_not_take_is_not_told() -> None:
    tiny = load("tiny")
    wanted = Decoder(tiny).decode(priority=-np.arange(tiny.num_buffers))
    for refused in ({KEEPS}, {ORDER, KEEPS, COLORS}, {ORDER, PREFETCHES, KEEPS, COLORS}):
        older = replace(tiny, compiler={**tiny.compiler, REFUSED: sorted(refused)})
        found = translate(make_judge(older), wanted, 600.0, seed=3, decodes=400)
        told = {option for one in found for option in one.options}
        assert not told & refused
        assert (NAMING.keys() - refused - {COLORS}) <= told, refused


def test_flags_alone_name_nothing() -> None:
    program = load("dlrm-train-b2048")
    assert program.production is not None
    judge = make_judge(program)
    found = translate(judge, program.production, 600.0, decodes=150, flags_only=True)
    assert [one.score_s for one in found] == sorted(one.score_s for one in found)
    assert {one.kind for one in found} == {"flags", "default"}
    for one in found:
        assert not {ORDER, PREFETCHES, KEEPS} & set(one.options)
        assert (one.options == {}) == (one.kind == "default")
    tuned = judge.tuned_variant()
    assert tuned is not None
    assert found[0].judged_s < judge.judge(tuned.mapping)  # the flag grid has eight settings of three flags
    (best,) = translated_candidates(found, 1)
    assert best.options == found[0].options


def test_what_seems_best_waits_for_its_repair(monkeypatch: pytest.MonkeyPatch) -> None:
    program, repairs, repaired = load("lstm-b128-s64-v4"), [0], Decoder.repaired

    def counted(decoder: Decoder, mapping: Mapping) -> Mapping:
        repairs[-1] += 1
        return repaired(decoder, mapping)

    monkeypatch.setattr(Decoder, "repaired", counted)
    judge = make_judge(program, "msa")
    wanted = Decoder(program).decode(priority=-np.arange(program.num_buffers))
    for decodes_per_repair in (0, 100):
        repairs.append(0)
        monkeypatch.setattr(translate_module, "_DECODES_PER_REPAIR", decodes_per_repair)
        for one in translate(judge, wanted, 600.0, decodes=400):
            assert verify(program, program.target, one.mapping) == []
            assert one.judged_s == judge.judge(one.mapping)
    at_once, waiting = repairs[-2:]
    assert 0 < waiting < 0.5 * at_once


def test_a_mapping_is_worth_what_is_left_of_it_once_it_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = load("tiny")
    judge, repaired = make_judge(tiny), Decoder.repaired

    def ruined(decoder: Decoder, mapping: Mapping) -> Mapping:
        """Repairs as ever where XLA's own mapping is decoded; of all others nothing is left."""
        assert tiny.production is not None
        own = np.array_equal(mapping.access_fast, tiny.production.access_fast)
        return repaired(decoder, mapping) if own else all_hbm(tiny)

    monkeypatch.setattr(Decoder, "repaired", ruined)
    monkeypatch.setattr(Decoder, "is_exact", False)
    wanted = Decoder(tiny).decode_roughly(priority=-np.arange(tiny.num_buffers))
    found = translate(judge, wanted, 600.0, decodes=100)
    assert len(found) > 1
    assert found[0].kind == "default"
    for one in found:
        assert one.judged_s == judge.judge(one.mapping)
