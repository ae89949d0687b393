"""Bad input gets one clear line and exit status 2, whatever it is."""

import dataclasses
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from launch_cases import WORKLOAD, call, last_checkpoint, train_arguments
from programs import make_program

from mallocmuzero.env import workloads
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.terminal.compiling import Compiling


def error_of(*arguments: str) -> str:
    """Calls the command line, which must refuse, and returns the one line of the error."""
    status, output, errors = call(*arguments)
    assert status == 2
    assert output == ""
    # `train` may have said where it stands before it found out.
    *_, line = errors.splitlines()
    assert line.startswith("mallocmuzero: error: ")
    assert "Traceback" not in errors
    return line


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few updates."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert call(*train_arguments(folder, "--steps", "2"))[0] == 0
    return folder


@pytest.fixture
def copied_run(run_dir: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    folder = tmp_path / "copy"
    shutil.copytree(run_dir, folder)
    return folder


def test_an_unknown_workload_brings_the_nearest_ones(tmp_path: Path) -> None:
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", workload="resnet51"))
    assert "'resnet51'" in line
    assert "did you mean resnet50-b128" in line
    assert f"`mallocmuzero workloads` lists all {len(workloads.names())}" in line
    assert "tiny" not in line
    assert not (tmp_path / "run").exists()
    assert "resnet51" in error_of("verify", "resnet51", "production")


def test_an_objective_that_cannot_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--objective", "watts"))
    assert "--objective: " in line
    assert "'watts' is not known; choose one of robust, msa, cycles" in line
    program = dataclasses.replace(workloads.load(WORKLOAD), cycles=None)
    path = tmp_path / "program.json.gz"
    write_program(program, path)
    monkeypatch.setattr(Compiling, "kernels", lambda *_: pytest.fail("compiles"))
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--objective", "robust", workload=str(path)))
    assert "has no cycle table" in line
    assert "objective `msa`" in line
    assert not (tmp_path / "run").exists()


def test_a_run_with_a_setting_of_before(copied_run: Path) -> None:
    path = copied_run / "config.json"
    config = json.loads(path.read_text())
    config["actor"]["model"] = "msa"
    path.write_text(json.dumps(config))
    line = error_of("train", "--run-dir", str(copied_run), "--resume")
    assert f"{path}: actor.model is no setting; " in line


def test_the_place_of_a_run_is_looked_at_before_anything_is_compiled(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Compiling, "kernels", lambda *_: pytest.fail("compiles"))
    file, used = tmp_path / "file", tmp_path / "used"
    file.touch()
    used.mkdir()
    (used / "letter.txt").touch()
    for place, words in (
        (file, "cannot be made a run directory"),
        (used, "holds letter.txt but no run"),
        (run_dir, "holds a run already"),
        (run_dir.as_uri(), "holds a run already"),
    ):
        assert words in error_of(*train_arguments(place, "--steps", "1"))


def test_the_diagnosis_of_the_other_game_says_where_to_go(run_dir: Path) -> None:
    assert "judge this one by placebos" in error_of("diagnose", str(run_dir), "--workload", "tiny")


def test_a_refusal_names_the_option_that_it_is_about(tmp_path: Path) -> None:
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--topology", "local"))
    assert "error: --topology: topology is 'local'; it must be one of process, ray" in line


def test_a_share_of_the_memory_is_for_training(tmp_path: Path) -> None:
    line = error_of("solve", "tiny@0.5", "-o", str(tmp_path / "m.json.gz"))
    assert "tiny@0.5: only `train` takes a share of the fast memory (NAME@SHARE); give tiny" in line


def test_without_a_command_all_commands_are_shown() -> None:
    status, output, errors = call()
    assert (status, output) == (2, "")
    assert "make compiler options for a JAX function" in errors


@pytest.mark.parametrize(("data", "words"), [(b"", "is empty"), (b"text\n", "not a gzip file; check the path")])
def test_a_file_of_another_kind(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "program.json.gz"
    path.write_bytes(data)
    assert words in error_of("verify", str(path), "production")


def test_truncated_program_file(tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    path.write_bytes(workloads.workload(WORKLOAD).path.read_bytes()[:2000])
    assert str(path) in error_of("verify", str(path), "production")


def test_mapping_of_another_program(tmp_path: Path) -> None:
    other = workloads.load("tiny")
    path = tmp_path / "mapping.json.gz"
    write_mapping(all_hbm(other), other, path)
    assert str(path) in error_of("verify", WORKLOAD, str(path))


def test_missing_mapping_file() -> None:
    assert "nowhere.json.gz" in error_of("verify", WORKLOAD, "nowhere.json.gz")


def test_unknown_names_of_all_kinds(tmp_path: Path) -> None:
    output = str(tmp_path / "x.json.gz")
    assert "did you mean train?" in error_of("workloads", "--split", "traim")
    assert "train, validation, heldout" in error_of("workloads", "--split", "xyz")
    assert "did you mean order-search?" in error_of("solve", "tiny", "--solver", "order", "-o", output)
    assert "no command is called 'slove'; did you mean solve?" in error_of("slove")
    assert "no mapping is called 'prod'; did you mean production?" in error_of("verify", "tiny", "prod")
    assert "did you mean cycles?" in error_of("show", "tiny", "--model", "cycle", "-o", str(tmp_path / "x.png"))


def test_unknown_target_of_a_capture(tmp_path: Path) -> None:
    line = error_of("capture", "module:function", "--target", "v99", "-o", str(tmp_path / "x.json.gz"))
    assert "'v99'" in line
    assert "v5e" in line


def test_a_picture_needs_a_known_suffix(tmp_path: Path) -> None:
    assert "x.jpeg" in error_of("show", WORKLOAD, "production", "-o", str(tmp_path / "x.jpeg"))


def test_json_into_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    assert "nowhere" in error_of("workloads", "--json", str(tmp_path / "nowhere" / "x.json"))


def test_a_program_without_decisions_cannot_be_trained_on(tmp_path: Path) -> None:
    program = make_program(
        [("add", 1.0, ["x"], ["y"])], {"x": {"size": 8, "input": True}, "y": {"size": 8, "output": True}}
    )
    path = tmp_path / "program.json.gz"
    write_program(program, path)
    assert "nothing to decide" in error_of(*train_arguments(tmp_path / "run", "--steps", "1", workload=str(path)))


def test_a_run_directory_that_is_none(tmp_path: Path) -> None:
    assert "no such run directory" in error_of("evaluate", str(tmp_path / "nowhere"), "--workload", WORKLOAD)
    assert "holds no run" in error_of("evaluate", str(tmp_path), "--workload", WORKLOAD)
    assert "no such run directory" in error_of("train", "--run-dir", str(tmp_path / "nowhere"), "--resume")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "mine.txt").write_text("not to be mixed with a run")
    assert "holds mine.txt but no run" in error_of(*train_arguments(tmp_path, "--steps", "1"))


def test_an_existing_run_is_not_overwritten(run_dir: Path) -> None:
    assert "--resume" in error_of(*train_arguments(run_dir, "--steps", "3"))


def test_a_resumed_run_stays_what_it_was(run_dir: Path) -> None:
    line = error_of("train", "--run-dir", str(run_dir), "--resume", "--set", "learner.learning_rate=0.5")
    assert "learner.learning_rate" in line
    assert "start a new run" in line


def test_a_run_directory_of_another_version(copied_run: Path) -> None:
    path = copied_run / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "version": 99}))
    for arguments in (
        ("evaluate", str(copied_run), "--workload", WORKLOAD),
        ("train", "--run-dir", str(copied_run), "--resume"),
    ):
        line = error_of(*arguments)
        assert str(path) in line
        assert "`version` is 99" in line


@pytest.mark.parametrize(
    "part", ["actors.json", "published.msgpack", "learner/manifest", "replay/replay.json", "replay/table.npz"]
)
def test_a_damaged_checkpoint_is_not_believed(copied_run: Path, part: str) -> None:
    folder = last_checkpoint(copied_run)
    path = next(folder.glob("learner/*/manifest.json")) if part == "learner/manifest" else folder / part
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert str(path) in error_of("train", "--run-dir", str(copied_run), "--resume", "--steps", "5")


def test_a_checkpoint_whose_manifest_was_not_written_is_none(copied_run: Path) -> None:
    (last_checkpoint(copied_run) / "manifest.json").unlink()
    assert "manifest.json" in error_of("train", "--run-dir", str(copied_run), "--resume", "--steps", "5")


def test_two_runs_in_one_directory(copied_run: Path) -> None:
    first = RunDirectory(copied_run)
    first.lock()
    try:
        assert "another process trains here" in error_of("train", "--run-dir", str(copied_run), "--resume")
    finally:
        first.unlock()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(run_dir: Path, copied_run: Path) -> None:
    assert "No space left" in error_of("workloads", "--json", "/dev/full")
    (copied_run / "metrics.jsonl").unlink()
    (copied_run / "metrics.jsonl").symlink_to("/dev/full")
    # Figures are lost, training is not.
    code, text, errors = call("train", "--run-dir", str(copied_run), "--resume", "--steps", "5")
    assert code == 0, errors
    (line,) = [line for line in (text + errors).splitlines() if "figures are lost" in line]
    assert "No space left" in line
    assert "metrics.jsonl" in line


@pytest.fixture
def listener() -> Iterator[str]:
    """The address of something that accepts connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_dead_ray_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--topology", "ray", "--address", address))
    assert f"--address {address}: no Ray cluster answers" in line
    assert not (tmp_path / "run" / "manifest.json").exists()


def test_an_address_where_no_ray_is(tmp_path: Path, listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mallocmuzero.launch.ray.cluster._CONNECT_TIMEOUT_S", 1.0)
    line = error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--topology", "ray", "--address", listener))
    assert "it is no Ray cluster" in line


def test_an_address_that_is_none(tmp_path: Path) -> None:
    line = error_of(
        *train_arguments(tmp_path / "run", "--steps", "1", "--topology", "ray", "--address", "ray://somewhere")
    )
    assert "is not `auto` or HOST:PORT" in line
    assert "topology is 'process'" in error_of(*train_arguments(tmp_path / "run", "--steps", "1", "--address", "auto"))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["workloads", "--json", "-"],
        ["verify", WORKLOAD, "production"],
    ],
)
def test_light_commands_load_nothing_heavy(arguments: list[str]) -> None:
    """They must work, and quickly, where Ray, Reverb and even JAX are missing."""
    code = (
        "import sys\n"
        "for name in ('jax', 'ray', 'reverb', 'tensorflow', 'matplotlib'):\n"
        "    sys.modules[name] = None\n"
        "from mallocmuzero.launch.cli import main\n"
        f"sys.exit(main({arguments!r}))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_interrupting_a_light_command_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(workloads, "load", interrupt)
    assert call("verify", WORKLOAD, "production") == (130, "", "mallocmuzero: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "tiny"],
        ["bound", "tiny"],
        ["show", "tiny", "production"],
        ["tune", "m:f", "--target", "v5e"],
        ["capture", "m:f", "--target", "v5e"],
        ["impose", "tiny", "production"],
        ["pack", "x.csv", "--capacity", "8"],
        ["export", "run"],
    ],
)
def test_places_are_checked_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    def compute(*given: object, **named: object) -> None:
        raise AssertionError("something was computed")

    monkeypatch.setattr("mallocmuzero.launch.terminal.compiling.compile_kernels", compute)
    monkeypatch.setattr("mallocmuzero.launch.terminal.compiling.Compiling.kernels", compute)
    monkeypatch.setattr("mallocmuzero.env.capture.environment.managed_python", compute)
    # A picture's suffix comes first.
    suffix = ".png" if arguments[0] == "show" else ".json.gz"
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    assert f"{folder}: is a folder; give a file in it" in error_of(*arguments, "-o", str(folder))
    missing = tmp_path / "missing" / f"x{suffix}"
    assert f"there is no folder {missing.parent}; make it first" in error_of(*arguments, "-o", str(missing))


@pytest.mark.parametrize("command", ["solve", "verify", "bound", "workloads", "settings", "status", "evaluate", "tune"])
def test_the_place_of_the_json_file_is_checked_too(tmp_path: Path, command: str) -> None:
    more = {
        "solve": ["tiny", "-o", str(tmp_path / "m.json.gz")],
        "verify": ["tiny", "production"],
        "bound": ["tiny"],
        "status": [str(tmp_path)],
        "evaluate": [str(tmp_path), "--workload", "tiny"],
        "tune": ["m:f", "--target", "v5e", "-o", str(tmp_path / "o.json")],
    }.get(command, [])
    assert f"--json {tmp_path}: is a folder" in error_of(command, *more, "--json", str(tmp_path))


def test_train_without_a_workload_says_so(tmp_path: Path) -> None:
    line = error_of("train", "--minutes", "1", "--run-dir", str(tmp_path / "run"))
    assert "there is no workload to train on: name one, such as `--workload resnet50-b128`" in line
    assert not (tmp_path / "run").exists()


def test_each_wrong_number_names_its_option(tmp_path: Path) -> None:
    output = ["-o", str(tmp_path / "o.json")]
    for arguments, words in (
        (["tune", "m:f", "--target", "v5e", "--minutes", "0"], "--minutes 0: "),
        (["tune", "m:f", "--target", "v5e", "--seed", "-1"], "--seed -1: "),
        (["impose", "tiny", "x", "--seconds", "-1"], "--seconds -1.0: "),
        (["impose", "tiny", "x", "--candidates", "0"], "--candidates 0: "),
        (["impose", "tiny", "x", "--time-limit", "0"], "--time-limit 0: "),
        (["impose", "tiny", "x", "--python", "/usr/bin/nopython"], "--python /usr/bin/nopython: there is no such"),
        (["impose", "tiny", "x", "--jax", "newest"], "--jax newest: give a version, such as 0.9.2"),
        (["bound", "tiny", "--seconds", "0"], "--seconds 0: "),
    ):
        assert words in error_of(*arguments, *output)


def test_what_cannot_be_parsed_is_one_line_too() -> None:
    assert "required: -o/--output; see `mallocmuzero solve --help`" in error_of("solve", "tiny")
    assert "invalid choice: 'fish' (choose from" in error_of("completion", "fish")
    assert "--seed: invalid int value: 'x'; see `mallocmuzero train --help`" in error_of("train", "--seed", "x")
    assert "unrecognized arguments: --sede" in error_of("solve", "tiny", "-o", "m.json.gz", "--sede", "3")


def test_quiet_keeps_standard_error_for_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mallocmuzero.launch.commands.solve._LINE_SECONDS", 0.1)
    arguments = ("solve", "tiny", "--solver", "restarts", "--seconds", "1", "-o", str(tmp_path / "m.json.gz"))
    status, text, errors = call(*arguments)
    assert status == 0
    assert "games" in errors  # a line of progress every few seconds
    for quiet in (("--quiet", *arguments), (*arguments, "-q", "--seconds", "0")):  # the last limit counts
        status, again, errors = call(*quiet)
        assert (status, errors) == (0, "")
        assert again.splitlines()[:3] == text.splitlines()[:3]
    assert call("--quiet", "solve", "nothing", "-o", "x")[2].startswith("mallocmuzero: error: ")
