"""`mallocmuzero solve`: writes a mapping that `verify` accepts, and says what it comes to."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import pytest
from actor_cases import NETWORK as ACCESS_NETWORK
from guided_cases import PARAMETERS
from launch_cases import WORKLOAD, call
from residency_cases import NETWORK, parameters

from mallocmuzero.env.physics.objective import Judge, make_judge
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.workloads import load
from mallocmuzero.learner.checkpoints.policy_file import write_policy
from mallocmuzero.solvers import solve as solve_module
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


def test_the_last_mapping_is_packed_anew_where_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, found, packed = tmp_path / "mapping.json.gz", [], []
    whole = solve_module.gather

    def counted(judge: Judge, mapping: Mapping) -> Mapping:
        packed.append(judge.program.name)  # warming up packs another one
        return whole(judge, mapping)

    monkeypatch.setattr(solve_module, "gather", counted)
    arguments = ("solve", WORKLOAD, "--solver", "random", "--evaluations", "20", "--objective", "msa", "-o", str(path))
    for options in ((), ("--repack",)):
        status, text, _ = call(*arguments, *options, "--json", "-")
        assert status == 0
        found.append((json.loads(text)["latency_us"], packed.count(WORKLOAD)))
    (without, before), (repacked, after) = found
    assert (before, after) == (0, 1)
    assert repacked <= without


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


@pytest.mark.parametrize("solver", ["guided", "policy"])
def test_learned_solvers_take_a_policy_file(tmp_path: Path, solver: str) -> None:
    path, policy = tmp_path / "mapping.json.gz", tmp_path / "fresh.policy"
    write_policy(policy, NETWORK, parameters(), {})
    arguments = ("solve", "tiny", "--solver", solver, "--evaluations", "200", "-o", str(path))
    status, text, _ = call(*arguments, "--policy", str(policy))
    assert status == 0
    assert f"{solver} (verified)" in text
    assert call("verify", "tiny", str(path))[0] == 0


def test_placebos_play_in_the_policys_place(tmp_path: Path) -> None:
    path = tmp_path / "mapping.json.gz"
    for placebo in ("untrained", "shuffled", "none"):
        status, text, _ = call("solve", "tiny", "--evaluations", "200", "--placebo", placebo, "-o", str(path))
        assert status == 0
        assert "guided (verified)" in text


def test_options_of_the_policy_are_checked(tmp_path: Path) -> None:
    path, access, other = (tmp_path / name for name in ("mapping.json.gz", "access.policy", "other.policy"))
    write_policy(access, ACCESS_NETWORK, ACCESS_NETWORK.init(jax.random.key(0)), {})
    assert "outcome" in PARAMETERS
    for options, words in (
        (("--solver", "anneal", "--policy", str(other)), "--policy goes with --solver guided or policy"),
        (("--solver", "anneal", "--placebo", "none"), "--placebo goes with --solver guided or policy"),
        (("--solver", "policy", "--placebo", "none"), "leaves the solver policy nothing to play"),
        (("--placebo", "sugar"), "--placebo sugar: choose from untrained, shuffled, none"),
        (("--policy", str(access)), "access.policy: is a policy of the game `access`"),
        (("--solver", "guided", "--policy", str(tmp_path / "none.policy")), "none.policy: cannot be read"),
        (("--solver", "alphago"), "guided"),
    ):
        status, _, errors = call("solve", "tiny", *options, "-o", str(path))
        assert status == 2
        assert words in errors
