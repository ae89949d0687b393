"""Moves of the translation: every one is an encoding that decodes, and those towards a mapping reach it."""

import numpy as np

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip.encoding import Codec
from mallocmuzero.roundtrip.moves import Moves
from mallocmuzero.roundtrip.wanted import Wanted


def test_moves_are_encodings_of_the_same_program() -> None:
    tiny = load("tiny")
    assert tiny.production is not None
    codec = Codec(make_judge(tiny), 0)
    moves = Moves(codec, Wanted(codec, tiny.production), np.random.default_rng(0))
    encoding = codec.default()
    kinds = set()
    for _ in range(300):
        before = encoding
        encoding = moves.moved(encoding, codec.decode(encoding))
        kinds |= set(encoding.kind.split("+"))
        assert sorted(encoding.order.tolist()) == sorted(codec.told(before.order).tolist()) or encoding.own_order
        assert not (encoding.kept_reads & ~codec.may_keep).any()
        assert (encoding.kept_values <= codec.keepable_values).all()
        wanted = encoding.starts >= 0
        assert (encoding.starts[wanted] < tiny.access_instruction[wanted]).all()
    assert kinds >= {"order", "starts", "keeps"}


def test_moves_lead_to_the_mapping() -> None:
    """From XLA's order reversed to XLA's own mapping."""
    tiny = load("tiny")
    assert tiny.production is not None
    codec = Codec(make_judge(tiny), 0)
    moves = Moves(codec, Wanted(codec, tiny.production), np.random.default_rng(1))

    def unlike(access_fast: np.ndarray) -> int:
        assert tiny.production is not None
        return int(tiny.access_bytes[access_fast != tiny.production.access_fast].sum())

    encoding = codec.default()
    encoding = type(encoding)(
        codec.told(encoding.order)[::-1],
        encoding.starts,
        encoding.kept_buffers,
        encoding.kept_reads,
        encoding.kept_values,
        encoding.flags,
    )
    decoded = codec.decode(encoding)
    begun = best = unlike(decoded.access_fast)
    for _ in range(400):
        trial = moves.moved(encoding, decoded)
        found = codec.decode(trial)
        if unlike(found.access_fast) <= best:
            encoding, decoded, best = trial, found, unlike(found.access_fast)
    assert best < 0.2 * begun


def test_moves_start_prefetches_before_loops() -> None:
    program = load("lstm-b128-s64-v4")
    assert program.production is not None
    codec = Codec(make_judge(program), 0)
    moves = Moves(codec, Wanted(codec, program.production), np.random.default_rng(0))
    encoding, told = codec.default(), np.zeros(len(codec.started), bool)
    for _ in range(300):
        encoding = moves.moved(encoding, codec.decode(encoding))
        told |= encoding.starts >= 0
        by_loops = encoding.starts[program.num_accesses :]
        assert (by_loops < program.loop_first[codec.by_loops[:, 0]]).all()
    assert told[program.num_accesses :].any()
    assert codec.startable[told].all()
