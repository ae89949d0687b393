"""`mallocmuzero settings` lists every setting, as `train` takes it."""

import json

from launch_cases import call

from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.config.listing import meanings_of, settings
from mallocmuzero.launch.config.overrides import Overrides


def test_every_setting_has_a_type_a_default_and_a_meaning() -> None:
    for game in ("residency", "access"):
        listed = settings(game)
        resolved = Overrides()
        resolved.add({"workloads": ["tiny"], "actor": {"decisions": game}}, "here")
        values = resolved.resolve().to_json()
        assert {setting.name.partition(".")[0] for setting in listed} == set(values)
        for setting in listed:
            assert setting.meaning, setting.name
            assert setting.kind, setting.name
            value = values
            for key in setting.name.split("."):
                value = value[key]
            if not setting.required:
                assert setting.default == value, setting.name
        assert [setting.name for setting in listed if setting.required] == ["workloads"]


def test_what_it_prints_is_understood_by_set() -> None:
    status, text, _ = call("settings", "learner.")
    assert status == 0
    assignments = [line.rpartition("  (")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert len(assignments) > 10
    overrides = Overrides()
    for assignment in assignments:
        name, _, value = assignment.partition(" = ")
        overrides.add_assignment(f"{name}={value}")
    overrides.add({"workloads": ["tiny"]}, "here")
    plain = Overrides()
    plain.add({"workloads": ["tiny"]}, "here")
    assert overrides.resolve() == plain.resolve()


def test_json_and_unknown_names() -> None:
    status, text, _ = call("settings", "seed", "--json", "-")
    assert status == 0
    assert json.loads(text) == [
        {
            "name": "seed",
            "kind": "whole number",
            "default": 0,
            "required": False,
            "meaning": meanings_of(TrainConfig)["seed"],
        }
    ]
    assert "did you mean learner" in call("settings", "lerner")[2]
    assert "no game is called 'chess'" in call("settings", "--game", "chess")[2]
