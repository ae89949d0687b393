"""Programs repeated end to end are whole programs, and their mappings verify."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.long_programs.page import exponent
from benchmarks.long_programs.repeated import repeated
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads import load
from mallocmuzero.solvers.xla.decoder import Decoder


# Cross-program prefetches: fetched again at the end; held throughout; none. The second and third have loops.
@pytest.mark.parametrize("name", ["tiny", "lstm-b128-s64-v4", "lstm-train-b64-s32", "dlrm-b2048"])
def test_a_repeated_program_reads_back_and_its_mappings_verify(name: str, tmp_path: Path) -> None:
    program = load(name)
    long = repeated(program, 5)
    path = tmp_path / "long.json.gz"
    write_program(long, path)
    assert read_program(path).sha256 == long.sha256
    assert (long.num_accesses, long.num_buffers) == (5 * program.num_accesses, 5 * program.num_buffers)
    assert long.production is not None
    assert program.production is not None
    assert verify(long, long.target, long.production) == []
    assert verify(long, long.target, Decoder(long).decode()) == []
    once, often = (
        simulate(p, p.target, m).latency_s for p, m in ((program, program.production), (long, long.production))
    )
    assert often == pytest.approx(5 * once, rel=0.05)


def test_the_exponent_is_the_slope_in_logarithms() -> None:
    lengths = np.array([100.0, 1e3, 1e4])
    assert exponent(list(zip(lengths, 3e-6 * lengths**1.5, strict=True))) == pytest.approx(1.5)
    assert exponent([(100.0, 1.0)]) is None
