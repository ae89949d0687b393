"""The configuration is strict: what it does not understand it refuses, naming the setting, its place and the mend."""

import json
import re
from pathlib import Path

import pytest

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.config.config import TrainConfig, config_from_json
from mallocmuzero.launch.config.defaults import defaults_of
from mallocmuzero.launch.config.overrides import Overrides

BASE = TrainConfig(workloads=("resnet50-b128",))


def resolve(*assignments: str) -> TrainConfig:
    overrides = Overrides()
    overrides.add({"workloads": ["resnet50-b128"]}, "--workload")
    for assignment in assignments:
        overrides.add_assignment(assignment)
    return overrides.resolve()


def test_json_brings_back_an_equal_configuration() -> None:
    config = resolve("learner.decay_steps=1000", "network.grid_channels=[8, 8]", "network.value.bins=51", "minutes=1")
    assert config_from_json(json.loads(json.dumps(config.to_json())), "file") == config
    assert config != BASE


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("learner.learning_rat=0.1", r"learner\.learning_rat is no setting; did you mean learning_rate"),
        ("lerner.learning_rate=0.1", r"lerner is no setting; did you mean learner"),
        ("learner=3", r"learner is 3; make it a section"),
        ("learner.batch_size=8.0", r"learner\.batch_size is 8\.0; it must be a whole number"),
        ("learner.batch_size=true", r"learner\.batch_size is True; it must be a whole number"),
        ("learner.learning_rate=fast", r"learner\.learning_rate is 'fast'; it must be a number"),
        ("learner.batch_size=none", r"learner\.batch_size is None; it must be a whole number"),
        ("network.grid=[1, 2]", r"network\.grid is \[1, 2\]; it must be a list of 3"),
        ("learner.td_steps=0", r"learner: td_steps must be at least 1"),
        ("replay.min_size=999999", r"replay: min_size is 999999; it must be between 1 and capacity"),
        ("search.discount=0.5", r"learner\.discount is 1\.0 and search\.discount 0\.5; they must be the same"),
        (
            "network.observation_size=9999",
            r"network\.observation_size is 9999, this version's game has \d+; leave it out",
        ),
        ("actor.objective=watts", r"objective 'watts' is not known; choose one of robust, msa, cycles"),
        ("actor.msa_share=1.5", r"actor: msa_share must be in \[0, 1\]"),
        ("topology=cloud", r"topology is 'cloud'; it must be one of process, ray"),
        ("actors=2", r"actors is 2; it must be at least 1, and exactly 1 in the topology 'process'"),
        ("steps=0", r"steps is 0; it must be above 0"),
        ("seed=-1", r"seed is -1; it must be between"),
        ("workloads=[]", r"workloads is empty"),
        ("learner.batch_size=100000", r"error_buffer is .*; batches of 100000 need at least"),
    ],
)
def test_refuses_what_it_does_not_understand(assignment: str, message: str) -> None:
    with pytest.raises(UserError, match=rf"^--.*{message}"):
        resolve(assignment)


def test_refuses_an_assignment_that_is_none() -> None:
    with pytest.raises(UserError, match=r"--set seed: is no assignment; write --set section\.key=value"):
        resolve("seed")


def test_a_value_none_unsets() -> None:
    assert resolve("learner.decay_steps=5").learner.decay_steps == 5
    assert resolve("learner.decay_steps=5", "learner.decay_steps=none").learner.decay_steps is None


@pytest.mark.parametrize(
    ("name", "text"), [("c.toml", "[learner]\nbatch_size = 32\n"), ("c.json", '{"learner": {"batch_size": 32}}')]
)
def test_reads_files_and_later_settings_win(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text('workloads = ["resnet50-b128"]\n' + text if name.endswith("toml") else text)
    overrides = Overrides()
    overrides.add({"workloads": ["resnet50-b128"]}, "--workload")
    overrides.add_file(path)
    assert overrides.resolve().learner.batch_size == 32
    overrides.add_assignment("learner.batch_size=16")
    assert overrides.resolve().learner.batch_size == 16
    assert overrides.resolve().learner.td_steps == defaults_of("residency")["learner"]["td_steps"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.toml", "[learner", "is no TOML"),
        ("c.json", "{", "is no JSON"),
        ("c.json", "[]", "is no JSON object"),
        ("c.toml", "[learner]\nx = 1", "learner.x is no setting"),
        ("c.toml", "seed = '1'", "seed is '1'; it must be a whole number"),
    ],
)
def test_names_the_file_that_cannot_be_used(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(text)

    def read() -> TrainConfig:
        overrides = Overrides()
        overrides.add_file(path)
        return overrides.resolve()

    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: {message}"):
        read()


def test_missing_file_and_missing_workloads_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.toml: cannot be read"):
        Overrides().add_file(tmp_path / "nowhere.toml")
    with pytest.raises(UserError, match="workloads is missing"):
        Overrides().resolve()
