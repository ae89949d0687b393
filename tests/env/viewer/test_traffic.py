"""HBM traffic adds up: every byte that moves is there, and nobody uses more time than there is."""

import numpy as np
import pytest

from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import PREFETCH, WRITE_BACK
from mallocmuzero.env.viewer.traffic import traffic
from mallocmuzero.env.workloads import load


@pytest.mark.parametrize("name", ["resnet50-b128", "bert-train-b8", "lstm-train-b64-s32"])
def test_traffic_adds_up(name: str) -> None:
    program = load(name)
    assert program.production is not None
    line = simulate(program, program.target, program.production)
    found = traffic(program.target, program.production, line)
    assert np.all(np.diff(found.seconds) > 0)
    assert found.instructions[-1] == pytest.approx(line.hbm_s.sum())
    copies = program.production.copies
    work = (copies[:, 5] - copies[:, 4]) / program.target.hbm_bandwidth
    moves = line.copy_end_s > line.copy_begin_s
    for way, used in ((PREFETCH, found.prefetches), (WRITE_BACK, found.write_backs)):
        assert np.all(np.diff(used) >= -1e-15)
        assert used[-1] == pytest.approx(work[moves & (copies[:, 1] == way)].sum(), rel=1e-6)
    # Exact where instructions alone use HBM; where copies of both directions overlap, their shares are means.
    assert np.all(np.diff(found.instructions) <= np.diff(found.seconds) * (1 + 1e-9) + 1e-15)
    whole = found.instructions[-1] + found.prefetches[-1] + found.write_backs[-1]
    assert whole <= found.seconds[-1] * (1 + 1e-9)
