"""`mallocmuzero solve`: writes a mapping that `verify` accepts, and says what it comes to."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from guided_cases import NETWORK, fresh_params
from launch_cases import WORKLOAD, call

from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.workloads import load
from mallocmuzero.learner.checkpoints.policy_file import write_policy
from mallocmuzero.solvers.xla.decoder import Decoder


def test_solves_writes_and_compares(tmp_path: Path) -> None:
    path = tmp_path / "mapping.json.gz"
    arguments = ("solve", WORKLOAD, "--solver", "restarts", "--evaluations", "300", "--objective", "msa")
    status, text, _ = call(*arguments, "-o", str(path), "--json", "-")
    assert status == 0
    result = json.loads(text)
    assert result["program"] == WORKLOAD
    assert (result["solver"], result["seed"], result["objective"]) == ("restarts", 0, "msa")
    assert result["floor_us"] <= result["latency_us"] < result["production_us"]
    assert result["verified"] is True
    assert result["stopped"] is False
    assert 0 < result["evaluations"] <= 300
    status, text, _ = call("verify", WORKLOAD, str(path), "--json", "-")
    assert status == 0
    assert json.loads(text)["latency_us"]["msa"] == pytest.approx(result["latency_us"])
    status, text, _ = call(*arguments, "-o", str(path))
    assert status == 0
    assert "production" in text
    assert f"wrote {path}" in text


def test_without_production_it_says_so_and_compares_with_the_algorithm(tmp_path: Path) -> None:
    path, mapping = tmp_path / "unread.json.gz", tmp_path / "mapping.json.gz"
    tiny = load("tiny")
    compiler = {**tiny.compiler, "inexpressible": {"violation: overlap": 2}}
    write_program(replace(tiny, production=None, compiler=compiler), path, None)
    arguments = ("solve", str(path), "--solver", "restarts", "--evaluations", "200", "--objective", "msa")
    status, text, _ = call(*arguments, "-o", str(mapping))
    assert status == 0
    first = text.splitlines()[0]
    assert "XLA's own mapping could not be read back: violation: overlap (2)." in first
    assert "compared with the mapping of XLA's algorithm (solver xla)" in first
    assert "of XLA's algorithm" in text
    assert "of production" not in text
    status, text, errors = call(*arguments, "-o", str(mapping), "--json", "-")
    assert status == 0
    assert errors.splitlines()[0] == first
    result = json.loads(text)
    assert result["production_us"] is None
    assert "overlap" in result["production_missing"]
    judge = make_judge(tiny, "msa")
    assert result["xla_algorithm_us"] == pytest.approx(1e6 * judge.judge(Decoder(tiny, tiny.target).decode()))
    assert result["floor_us"] <= result["latency_us"]
    status, text, _ = call("solve", "tiny", *arguments[2:], "-o", str(mapping), "--json", "-")
    known = json.loads(text)
    assert (known["production_missing"], known["xla_algorithm_us"]) == (None, None)


def test_bad_options(tmp_path: Path) -> None:
    path = str(tmp_path / "mapping.json.gz")
    for options, words in (
        (["--solver", "nobody"], "no solver is called 'nobody'"),
        (["--seconds", "-1"], "-1.0 seconds"),
        (["--evaluations", "-1"], "-1 evaluations"),
        (["--seed", "-1"], "--seed -1"),
        (["--objective", "speed"], "objective 'speed'"),
    ):
        status, _, errors = call("solve", "tiny", *options, "-o", path)
        assert status == 2
        assert words in errors
        assert not Path(path).exists()


def test_guided_takes_a_policy_file(tmp_path: Path) -> None:
    path, policy = tmp_path / "mapping.json.gz", tmp_path / "fresh.policy"
    write_policy(policy, NETWORK, fresh_params(), {})
    arguments = ("solve", "tiny", "--solver", "guided", "--evaluations", "200", "-o", str(path))
    status, text, _ = call(*arguments, "--policy", str(policy))
    assert status == 0
    assert "guided (verified)" in text
    assert call("verify", "tiny", str(path))[0] == 0
    for options, words in (
        (("--solver", "anneal", "--policy", str(policy)), "--policy goes with --solver guided"),
        (("--solver", "guided", "--policy", str(tmp_path / "none.policy")), "none.policy: cannot be read"),
        (("--solver", "alphago"), "guided"),
    ):
        status, _, errors = call("solve", "tiny", *options, "-o", str(path))
        assert status == 2
        assert words in errors
