"""`mallocmuzero train`: which of its many settings hold."""

import json
from pathlib import Path

from launch_cases import SETTINGS, WORKLOAD, call, metric_lines


def test_options_beat_assignments_and_assignments_beat_the_file(tmp_path: Path) -> None:
    run_dir, file = tmp_path / "run", tmp_path / "train.json"
    sections: dict[str, dict[str, object]] = {}
    for name, value in {**SETTINGS, "schedule.evaluate_period": 0, "learner.learning_rate": 0.5}.items():
        section, key = name.split(".")
        sections.setdefault(section, {})[key] = value
    file.write_text(json.dumps({"workloads": ["tiny"], "seed": 3, "steps": 99, "actors": 7, **sections}))
    status, _, errors = call(
        *("train", "--run-dir", str(run_dir), "--config", str(file), "--workload", WORKLOAD, "--topology", "process"),
        *("--set", "learner.learning_rate=0.25", "--set", "steps=50", "--steps", "2", "--minutes", "30"),
        *("--actors", "1", "--objective", "msa", "--game", "residency"),
    )
    assert status == 0, errors
    config = json.loads((run_dir / "config.json").read_text(encoding="utf-8"))
    assert (config["workloads"], config["seed"], config["steps"], config["minutes"]) == ([WORKLOAD], 3, 2, 30.0)
    assert (config["actors"], config["topology"], config["learner"]["learning_rate"]) == (1, "process", 0.25)
    assert (config["actor"]["objective"], config["actor"]["decisions"]) == ("msa", "residency")
    assert config["search"]["simulations"] == SETTINGS["search.simulations"]
    assert metric_lines(run_dir)[-1]["step"] == 2
