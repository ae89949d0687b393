"""`mallocmuzero diagnose`: tables, JSON and pictures of a trained agent; one clear line for what cannot be used."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diagnosis_cases import NETWORK, agent, save_policy, scrambled
from launch_cases import call, last_checkpoint, train_arguments
from programs import make_program

from mallocmuzero.actors.diagnosis.diagnose import diagnose
from mallocmuzero.actors.self_play.config import ActorConfig
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.game.observation import OBSERVATION_SIZE
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.cli import main
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.diagnosis.load import load_agent
from mallocmuzero.learner.checkpoints.policy_file import write_policy
from mallocmuzero.learner.networks.network import NetworkConfig

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of an untrained network."""
    return save_policy(tmp_path_factory.mktemp("policy"))


def names(value: Any) -> set[str]:
    """The names of all fields at any depth."""
    if isinstance(value, dict):
        return set(value).union(*(names(item) for item in value.values()))
    return set().union(*(names(item) for item in value)) if isinstance(value, list) else set()


def test_a_trained_run_is_diagnosed(tmp_path: Path) -> None:
    run_dir, pictures, path = tmp_path / "run", tmp_path / "pictures", tmp_path / "result.json"
    assert call(*train_arguments(run_dir, "--steps", "6", "--game", "access", workload="tiny"))[0] == 0
    options = ("--workload", "tiny", "--horizon", "4", "--simulations", "3", "--json", str(path), "-o", str(pictures))
    status, text, _ = call("diagnose", str(run_dir), *options)
    assert status == 0
    (result,) = json.loads(path.read_text())
    program = load("tiny")
    assert (result["program"], result["program_sha256"]) == ("tiny", program.sha256)
    assert (result["agent"], result["step"]) == (str(run_dir), 6)
    assert (result["objective"], result["horizon"], result["simulations"]) == ("robust", 4, 3)
    lines = {line["line"]: line for line in result["lines"]}
    assert set(lines) == {"greedy", "production", "run", "policy"}
    actors = json.loads((last_checkpoint(run_dir) / "actors.json").read_text())["actors"]
    latency_s, moves = actors[0]["lines"][0]
    assert (lines["run"]["latency_us"], lines["run"]["decisions"]) == (pytest.approx(latency_s * 1e6), len(moves))
    assert lines["run"]["latency_us"] <= lines["greedy"]["latency_us"]
    assert result["best_known"] == "greedy"
    assert text.index("Verdict:") < text.index(result["verdict"][-1].split(".")[0])
    assert lines["greedy"]["latency_us"] < lines["production"]["latency_us"]
    evaluation = json.loads((run_dir / "evaluation.json").read_text())
    by_solver = {entry["solver"]: entry for entry in evaluation}
    assert result["production_us"] == pytest.approx(by_solver["production"]["latency_us"])
    assert lines["policy"]["latency_us"] == pytest.approx(by_solver["muzero-policy"]["latency_us"])
    for line in lines.values():
        assert [depth["depth"] for depth in line["model"]["depths"]] == [0, 1, 2, 3, 4]
        assert line["model"]["starts"] == line["decisions"] == line["value"]["decisions"] == line["policy"]["decisions"]
    assert lines["policy"]["policy"]["agreement"] == 1.0
    changes = result["changes"]
    assert (
        changes["agent"]["moves"] == len(changes["changes"]) <= changes["decisions"] == lines["production"]["decisions"]
    )
    assert changes["line_us"] == pytest.approx(lines["production"]["latency_us"])
    for words in ("Model against game", "Value against", "Policy against", "the search (3 simulations) would change"):
        assert words in text
    assert sorted(file.name for file in pictures.iterdir()) == [
        f"tiny-{name}.png" for name in ("changes", "depth", "policy", "value")
    ]
    for file in pictures.iterdir():
        assert f"wrote {file}" in text
        assert file.read_bytes()[:4] == b"\x89PNG"
        assert file.stat().st_size > 10_000
    # Every field is documented.
    document = (ROOT / "docs" / "json.md").read_text(encoding="utf-8")
    section = document.split("## `mallocmuzero diagnose`")[1].split("\n## ")[0]
    documented = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", section))))
    moves = {"NoCopy", "Copy", "Drop", "msa", "cycles"}  # fields by name of a move or a model
    assert names(result) - moves <= documented


def test_an_untrained_policy_says_nothing_and_the_diagnosis_says_so(policy: Path) -> None:
    status, text, errors = call("diagnose", str(policy), "--workload", "tiny", "--json", "-")
    assert status == 0
    assert "diagnosing tiny" in errors
    (result,) = json.loads(text)
    assert (result["step"], result["simulations"], result["horizon"]) == (0, 0, 10)
    for line in result["lines"]:
        value = line["value"]
        assert value["mean_predicted"] == pytest.approx(0.0, abs=1e-3)
        assert (value["slope"], value["correlation"]) == (None, None)
        for choices in line["policy"]["by_legal"]:
            assert choices["entropy"] is None or choices["entropy"] == pytest.approx(choices["uniform"])
            assert choices["uniform"] == pytest.approx(np.log(choices["legal"]))
        assert line["policy"]["sure"] == 0.0
        for depth in line["model"]["depths"]:
            assert depth["policy_kl"] is None or depth["policy_kl"] == pytest.approx(0.0, abs=1e-6)
    assert result["changes"]["agent"]["rank_correlation"] is None  # it likes all moves the same
    status, text, _ = call("diagnose", str(policy), "--workload", "tiny")
    assert status == 0
    assert " - │" in text  # figures that there are none of


def test_a_policy_file_plays_as_it_was_trained_to(tmp_path: Path) -> None:
    config = TrainConfig(workloads=("tiny",), seed=3, actor=ActorConfig(objective="msa"))
    path = tmp_path / "tiny.policy"
    write_policy(path, NETWORK, scrambled(), {"step": 7, "config": config.to_json()})
    loaded = load_agent(path)
    assert (loaded.step, loaded.seed, loaded.actor, loaded.search) == (7, 3, config.actor, config.search)
    diagnosis = diagnose(loaded, load("tiny"), horizon=1)
    assert diagnosis.objective == "msa"
    for line in diagnosis.lines:
        assert [depth.projected_cosine for depth in line.model.depths] == [None, None]
        assert line.model.depths[1].cosine is not None
    assert diagnosis.changes is not None
    assert {name for change in diagnosis.changes.changes for name in change.model_gain_us} == {"msa"}


def test_a_program_without_a_production_mapping_has_no_changes() -> None:
    down = [(f"down.{i}", 0.05, [f"x.{i}"], [f"x.{i + 1}"]) for i in range(3)]
    up = [("up.0", 0.05, ["x.3", "x.1"], ["y"])]
    buffers: dict[str, Any] = {"x.0": {"size": 32, "input": True}, "x.1": 64, "x.2": 64, "x.3": 64}
    program = make_program([*down, *up], buffers | {"y": {"size": 32, "output": True}})
    diagnosis = diagnose(agent(), program)
    assert diagnosis.changes is None
    assert diagnosis.best_known == "greedy"
    assert [line.trace.name for line in diagnosis.lines] == ["greedy", "policy"]
    assert diagnosis.as_json()["changes"] is None


def refused(*arguments: str) -> str:
    """Calls the command, which must refuse; returns the line of the error."""
    status, output, errors = call("diagnose", *arguments)
    assert (status, output) == (2, "")
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_what_cannot_be_used_is_named(policy: Path, tmp_path: Path) -> None:
    tiny = ("--workload", "tiny")
    assert "there is no such run directory" in refused(str(tmp_path / "nothing"), *tiny)
    (tmp_path / "empty").mkdir()
    assert "holds no run" in refused(str(tmp_path / "empty"), *tiny)
    assert "--horizon is 0" in refused(str(policy), *tiny, "--horizon", "0")
    assert "--simulations is 0" in refused(str(policy), *tiny, "--simulations", "0")
    assert "no split is called 'half'" in refused(str(policy), "--split", "half")
    assert "resnet51" in refused(str(policy), "--workload", "resnet51")
    damaged = tmp_path / "damaged"
    shutil.copytree(policy, damaged)
    next(file for file in sorted((damaged / "arrays").rglob("*")) if file.is_file()).write_bytes(b"")
    assert "damaged" in refused(str(damaged), *tiny)
    other = save_policy(tmp_path / "other", NetworkConfig(OBSERVATION_SIZE - 1, 3, width=8, projection_width=8))
    assert f"network.observation_size is {OBSERVATION_SIZE - 1}" in refused(str(other), *tiny)
    nothing = make_program(
        [("f.0", 1.0, ["x"], ["y"])], {"x": {"size": 8, "input": True}, "y": {"size": 8, "output": True}}
    )
    write_program(nothing, tmp_path / "nothing.json.gz")
    line = refused(str(policy), "--workload", str(tmp_path / "nothing.json.gz"))
    assert "leaves nothing to decide" in line
    changed = replace(agent(), lines={load("tiny").sha256: [0, 0, 0]})
    with pytest.raises(UserError, match="not legal on 'tiny'"):
        diagnose(changed, load("tiny"))
    file = tmp_path / "file"
    file.write_text("")
    assert "is empty" in refused(str(file), *tiny)
    file.write_text("no policy")
    assert "is no policy file" in refused(str(file), *tiny)
    assert "is a file; give a folder" in refused(str(policy), *tiny, "-o", str(file))


def test_the_help_says_which_agents_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diagnose", "--help"])
    assert "an agent of `train --game access`" in " ".join(capsys.readouterr().out.split())
