"""`mallocmuzero status` on folders whole and damaged, written by the run's own writers but without training."""

import contextlib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from launch_cases import call, last_checkpoint

from mallocmuzero.env.errors import UserError
from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.run.json_file import write_json_file
from mallocmuzero.launch.status.bottleneck import Waits, bottleneck
from mallocmuzero.launch.status.lock_holder import lock_holder
from mallocmuzero.launch.status.status import run_status

STEPS = 240
PROGRAM = "some-program"
LEAVES = [
    {"path": "opt_state/0/count", "shape": [], "dtype": "int32", "sha256": "c" * 64},
    {"path": "params/b/kernel", "shape": [3, 256], "dtype": "float32", "sha256": "b" * 64},
    {"path": "params/a/bias", "shape": [256], "dtype": "float32", "sha256": "a" * 64},
]
REPLAY = {"capacity": 400, "min_size": 20, "samples_per_insert": 2.0, "error_buffer": 40.0}


def line(step: int, minutes: float, blocked_s: float) -> dict[str, Any]:
    """A line of figures of a run with two actors, whose learner waits."""
    return {
        "time": time.time(),
        "minutes": minutes,
        "step": step,
        "play/moves": 10 * step,
        "play/episodes": step // 5,
        "blocked/actors_s": 2.0,
        "blocked/actors_turn_s": 7.0,
        "blocked/learner_s": blocked_s,
        "restarts/actor": 1,
        "play/policy_lag": 3.5,
        f"best/{PROGRAM}/latency_us": 90.0,
        f"best/{PROGRAM}/of_production": 0.9,
        "replay/size": 200,
        "replay/inserts": 1000,
        "replay/samples": 2000,
        "replay/samples_per_insert": 2.0,
    }


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """A run of the topology ray that has ended: a minute of figures, one checkpoint."""
    run = RunDirectory(tmp_path / "ended")
    code = {"version": "0.1.0", "commit": None}
    programs = [{"name": PROGRAM, "sha256": "0"}]
    write_json_file(
        run.manifest_file, {"format": "mallocmuzero-run", "version": 1, "code": code, "seed": 0, "programs": programs}
    )
    config = {"topology": "ray", "actors": 2, "steps": STEPS, "minutes": None, "replay": REPLAY}
    write_json_file(run.config_file, config)
    lines = [line(100, 9.0, 50.0), line(180, 9.5, 70.0), line(STEPS, 10.0, 86.0)]
    run.metrics_file.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    with RunCheckpoints(run.checkpoints, keep=2).writing() as (folder, entries):
        write_json_file(folder / "learner" / "step_000000240" / "manifest.json", {"leaves": LEAVES})
        (folder / "replay").mkdir()
        entries["counters"] = {"step": STEPS, "moves": 10 * STEPS, "seconds": 600.0}
        entries["metrics_offset"] = 0
    rows = [
        {"program": PROGRAM, "solver": "muzero-search", "latency_us": 80.0, "production_us": 100.0, "verified": True}
    ]
    rows.append({**rows[0], "solver": "muzero-or-production", "latency_us": 1.0})
    rows.append({**rows[0], "solver": "muzero-policy", "latency_us": 2.0, "verified": False})
    write_json_file(run.evaluation_file, rows)
    run.lock()
    run.unlock()
    return run.path


def test_what_is_said_of_a_run(ended: Path) -> None:
    status, output, _ = call("status", str(ended), "--json", str(ended.parent / "status.json"))
    assert status == 0
    said = json.loads((ended.parent / "status.json").read_text())
    assert (said["state"], said["running"], said["pid"]) == ("finished", False, None)
    assert said["step"] == said["checkpoint"]["step"] == STEPS
    assert (said["moves"], said["minutes"]) == (10 * STEPS, 10.0)
    # A minute: 140 updates, 36 s in which the learner waited.
    assert said["rates"] == pytest.approx({"updates_per_s": 140 / 60, "moves_per_s": 1400 / 60, "window_s": 60})
    assert said["blocked"]["learner_share"] == pytest.approx(0.6)
    assert said["blocked"]["actors_share"] == 0
    assert said["blocked"]["by_cause"]["actors"] == {"replay": 2.0, "turn": 7.0}
    assert said["limited_by"] == "actors"
    assert "waits 60 % of its time" in said["why"]
    assert said["restarts"] == {"actor": 1}
    assert said["policy_lag"] == 3.5
    best = said["best"][PROGRAM]
    assert (best["latency_us"], best["of_production"]) == (80.0, pytest.approx(0.8))
    assert {"msa_us", "cycles_us", "flags_of_production"} <= set(best)
    lines = f"params/a/bias float32 256 {'a' * 64}\nparams/b/kernel float32 3,256 {'b' * 64}\n"
    assert said["parameters_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert said["metrics_age_s"] < 60
    assert said["checkpoint"]["with_replay"] is True
    assert said["warnings"] == []
    assert output.startswith(f"{ended}: finished; topology ray, 2 actors\n")
    for words in (said["why"], said["parameters_sha256"], PROGRAM, "80.00 %"):
        assert words in output


# docs/json.md: later fields are added, none is renamed or goes.
CONTRACT: dict[str, set[str]] = {
    "": {
        *("run_dir", "state", "running", "pid", "host", "topology", "actors", "programs", "step", "moves", "episodes"),
        *("minutes", "until", "parameters_sha256", "best", "rates", "blocked", "policy_lag", "replay", "restarts"),
        *("limited_by", "why", "metrics_age_s", "checkpoint", "last_log", "warnings"),
    },
    "until": {"steps", "minutes"},
    "rates": {"updates_per_s", "moves_per_s", "window_s"},
    "blocked": {"learner_s", "actors_s", "learner_share", "actors_share", "by_cause"},
    "replay": {
        *("size", "capacity", "min_size", "inserts", "samples", "samples_per_insert", "samples_per_insert_wanted"),
    },
    "checkpoint": {"path", "step", "minutes", "age_s", "with_replay"},
}


def test_the_json_is_a_contract(ended: Path) -> None:
    status, output, _ = call("status", str(ended), "--json", "-")
    assert status == 0
    said = json.loads(output)
    document = (Path(__file__).parents[3] / "docs" / "json.md").read_text(encoding="utf-8")
    section = document.split("## `mallocmuzero status`")[1].split("\n## ")[0]
    for name, fields in CONTRACT.items():
        assert fields <= set(said[name] if name else said)
        for field in fields:
            assert field in section


def test_a_killed_run_says_what_it_will_do_again(ended: Path) -> None:
    with (ended / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line(STEPS + 7, 10.1, 86.0)) + "\n")
    said = run_status(ended)
    assert said["step"] == STEPS
    assert said["warnings"] == [f"it was killed: updates {STEPS + 1} to {STEPS + 7} are made again by --resume"]


def test_checkpoints_of_earlier_versions_have_no_hash(ended: Path) -> None:
    with RunCheckpoints(ended / "checkpoints", keep=2).writing() as (folder, entries):
        leaves = [{name: value for name, value in leaf.items() if name != "sha256"} for leaf in LEAVES]
        write_json_file(folder / "learner" / "step_000000250" / "manifest.json", {"leaves": leaves})
        entries["counters"] = {"step": 250, "seconds": 0.0}
    said = run_status(ended)
    assert (said["parameters_sha256"], said["step"], said["checkpoint"]["with_replay"]) == (None, 250, False)
    assert call("status", str(ended))[0] == 0


def test_a_look_takes_no_lock_and_loads_nothing_heavy(ended: Path) -> None:
    code = (
        "import sys\nfrom mallocmuzero.launch.cli import main\nassert main(['status', sys.argv[1]]) == 0\n"
        "heavy = {'jax', 'ray', 'tensorflow', 'reverb', 'numba', 'numpy'} & set(sys.modules)\nassert not heavy, heavy\n"
    )
    run = RunDirectory(ended)
    run.lock()  # Whoever wanted it now would fail.
    try:
        subprocess.run([sys.executable, "-c", code, str(ended)], check=True, stdout=subprocess.DEVNULL)
        holder = lock_holder(ended / "lock")
        assert (holder.running, holder.pid) == (True, os.getpid())
    finally:
        run.unlock()
    assert lock_holder(ended / "lock").running is False


def test_a_lock_held_on_another_machine_is_no_guess(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"pid": 1, "host": "some-other-machine", "since": 0}')
    holder = lock_holder(tmp_path / "lock")
    assert holder.running is None
    assert "some-other-machine" in holder.why


DAMAGE: dict[str, tuple[str, str | None, str]] = {
    "no manifest": ("manifest.json", None, "holds no run"),
    "manifest cut": ("manifest.json", '{"format": "mallocmuzero-run"', "is no JSON"),
    "manifest of another version": ("manifest.json", '{"format": "mallocmuzero-run", "version": 9}', "version"),
    "manifest nested without end": ("manifest.json", "[" * 100_000, "is no JSON"),
    "no configuration": ("config.json", None, "cannot be read"),
    "configuration is a list": ("config.json", "[]", "is no JSON object"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_without_manifest_or_configuration_there_is_no_status(ended: Path, tmp_path: Path, name: str) -> None:
    file, text, message = DAMAGE[name]
    run_dir = tmp_path / "run"
    shutil.copytree(ended, run_dir)
    (run_dir / file).unlink() if text is None else (run_dir / file).write_text(text)
    status, output, errors = call("status", str(run_dir))
    assert (status, output) == (2, "")
    assert message in errors
    assert file in errors
    assert errors.count("\n") == 1


def test_no_folder_at_all(tmp_path: Path) -> None:
    status, _, errors = call("status", str(tmp_path / "none"))
    assert status == 2
    assert "there is no such run directory" in errors


def _cut_learner(run_dir: Path) -> None:
    (path,) = last_checkpoint(run_dir).glob("learner/*/manifest.json")
    path.write_text(path.read_text()[:-10])


def _lose_checkpoints(run_dir: Path) -> None:
    shutil.rmtree(run_dir / "checkpoints")


def _spoil_metrics(run_dir: Path) -> None:
    path = run_dir / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'\xff\xfe\n[1]\n{"play/moves": "many"}\n{"time": 17952')


def _spoil_evaluation(run_dir: Path) -> None:
    (run_dir / "evaluation.json").write_text('[{"program": 3}]')


@pytest.mark.parametrize(
    ("damage", "warning"),
    [
        (_cut_learner, "its hash has changed"),
        (_lose_checkpoints, None),
        (_spoil_metrics, "3 of the last lines are no figures"),
        (_spoil_evaluation, "is no evaluation"),
    ],
)
def test_other_damage_is_a_warning(
    ended: Path, tmp_path: Path, damage: Callable[[Path], None], warning: str | None
) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(ended, run_dir)
    damage(run_dir)
    said = run_status(run_dir)
    assert said["step"] == STEPS
    assert PROGRAM in said["best"]
    if warning is None:
        assert (said["checkpoint"], said["parameters_sha256"]) == (None, None)
    else:
        assert warning in said["warnings"][0]
    assert (said["damaged_checkpoint"] is not None) == (damage is _cut_learner)
    assert call("status", str(run_dir))[0] == 0


def test_a_damaged_checkpoint_is_not_called_missing(ended: Path) -> None:
    _cut_learner(ended)
    status, output, _ = call("status", str(ended))
    assert status == 0
    assert f"checkpoint {last_checkpoint(ended)}: damaged" in output
    assert "none yet" not in output
    _lose_checkpoints(ended)
    assert "checkpoint none yet" in call("status", str(ended))[1]


def test_whatever_is_in_the_files_the_answer_is_a_status_or_one_clear_line(ended: Path, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    shutil.copytree(ended, run_dir)
    files = ["manifest.json", "config.json", "metrics.jsonl", "evaluation.json", "lock"]
    checkpoint = last_checkpoint(run_dir).relative_to(run_dir)
    files.append(str(checkpoint / "manifest.json"))
    generator = random.Random(7)
    for _ in range(150):
        path = run_dir / generator.choice(files)
        whole = path.read_bytes()
        data = bytearray(whole or b"{}")
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.choice(b'0123456789-e.,:"[]{}ntf\xff')
        path.write_bytes(data[: generator.randint(1, len(data))] if generator.random() < 0.3 else data)
        with contextlib.suppress(UserError):
            json.dumps(run_status(run_dir), allow_nan=False)
        path.write_bytes(whole)


def waits(**changes: Any) -> Waits:
    """A Ray run in which nobody waits, with changes."""
    values: dict[str, Any] = {"one_process": False, "playing": 0.9, "learner": 0.02, "actors": 0.02}
    return Waits(**{**values, "size": 100, "min_size": 20, "place": 0.5, **changes})


@pytest.mark.parametrize(
    ("changes", "limit", "words"),
    [
        ({}, "nobody", "processors"),
        ({"learner": 0.6, "place": 0.0}, "actors", "60 %"),
        ({"actors": 0.4, "place": 1.0}, "learner", "40 %"),
        ({"learner": 0.6, "place": 1.0}, "replay", "server"),
        ({"actors": 0.6, "place": 0.0}, "replay", "server"),
        ({"learner": 0.9, "size": 10, "place": 0.0}, "actors", "10 of the 20 segments"),
        ({"one_process": True, "playing": 0.8}, "actors", "80 %"),
        ({"one_process": True, "playing": 0.2}, "learner", "20 %"),
    ],
)
def test_who_limits_the_whole(changes: dict[str, Any], limit: str, words: str) -> None:
    found, why = bottleneck(waits(**changes))
    assert found == limit
    assert words in why
