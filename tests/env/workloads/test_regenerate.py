"""The command that captures the benchmark's programs again."""

import pytest

from mallocmuzero.env.capture.simulator_events import ISSUE, RUN, STEP
from mallocmuzero.env.workloads.regenerate import main as regenerate
from mallocmuzero.env.workloads.regenerate import older_figures


def test_regenerate_needs_a_known_name(capsys: pytest.CaptureFixture[str]):
    assert regenerate(["no-such-workload"]) == 2
    assert "no workload is called 'no-such-workload'" in capsys.readouterr().err


def test_figures_that_an_older_capture_did_not_keep_are_no_difference():
    old = {"step_s": 1e-9, "sequence": [RUN, STEP, STEP, STEP, STEP, ISSUE, RUN, 0], "unallocated": []}
    new = {**old, "sequence": [RUN, STEP, STEP, ISSUE, RUN, 0], "step_trips": [3, 1]}
    new |= {"allocated_operands": [0, 2], "results_counted_again": [], "estimates_off": {"without_copies": 0.0}}
    assert older_figures(new, old) == old
    assert older_figures(new, new) == new
    assert older_figures({**new, "left_out_s": 1.0}, old) == {**old, "left_out_s": 1.0}
