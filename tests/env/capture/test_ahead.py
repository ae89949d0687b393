"""A copy that each pass of a loop starts ahead of its first instruction: a mapping has no such copies."""

from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, unpacked

from mallocmuzero.env.capture import production as production_module
from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.program.mapping import PREFETCH
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify

# A beam search for v5e, compiled with an option that fetches its largest weight before the loop. The compiler also
# fetches 512 bytes in the condition of the loop, for the first instruction there.
BEAM_SEARCH = SMALL.parent / "ahead" / "beam-search-v5e.tar.xz"


@pytest.fixture(scope="module")
def compilation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(BEAM_SEARCH, tmp_path_factory.mktemp("ahead"))


def assembled(compilation: Path) -> Program:
    return Assembly(compilation, GENERATIONS["v5e"], "beam-search", "beam-search").program()


def test_the_read_counts_as_served_from_hbm(compilation: Path) -> None:
    program = assembled(compilation)
    production = program.production
    assert production is not None
    assert verify(program, program.target, production) == []
    assert list(program.compiler["inexpressible"].values()) == [1]
    assert "ahead of a pass's first instruction" in next(iter(program.compiler["inexpressible"]))
    buffer = program.buffer_names.index("broadcast_in_dim.32")
    assert program.size[buffer] == 512
    assert not production.access_fast[program.access_buffer == buffer].any()
    assert buffer not in production.copies[:, 0]


def test_the_weight_is_fetched_before_the_loop(compilation: Path) -> None:
    program = assembled(compilation)
    assert program.production is not None
    buffer = program.buffer_names.index("w__out__.1")
    (copy,) = program.production.copies[program.production.copies[:, 0] == buffer]
    assert copy[1] == PREFETCH
    assert copy[3] == program.loop_first[0]
    assert program.production.access_fast[program.access_buffer == buffer].all()


def test_what_moves_more_is_still_left_out(compilation: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(production_module, "_NEXT_TO_NOTHING", 1e-9)
    program = assembled(compilation)
    assert program.production is None
    assert np.sum([count for reason, count in program.compiler["inexpressible"].items() if "violation" in reason]) == 1
