"""The command that captures the benchmark's programs again."""

import pytest

from mallocmuzero.env.workloads.regenerate import main as regenerate


def test_regenerate_needs_a_known_name(capsys: pytest.CaptureFixture[str]):
    assert regenerate(["no-such-workload"]) == 2
    assert "no workload is called 'no-such-workload'" in capsys.readouterr().err
