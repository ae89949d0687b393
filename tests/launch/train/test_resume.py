"""The content of a checkpoint, and that no change of it goes unnoticed."""

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launch_cases import call, counters, metric_lines, train_arguments

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.mapping_file import read_mapping, write_mapping
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.run.checkpoint_parts import json_sha256
from mallocmuzero.launch.run.checkpoints import CannotSave, RunCheckpoints
from mallocmuzero.launch.session.metrics import MetricWriter
from mallocmuzero.solvers.common.budget import Budget
from mallocmuzero.solvers.solve import solve

PARTS = {
    *("parameters", "target", "optimiser", "step", "learner_key", "actors", "published", "replay", "best", "config"),
    *("counters", "metrics_offset", "metrics_sha256", "programs"),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has ended, with two checkpoints."""
    run_dir = tmp_path_factory.mktemp("trained") / "run"
    # Saves all the time.
    arguments = train_arguments(
        run_dir, "--steps", "4", workload="tiny", schedule__checkpoint_minutes=1e-4, schedule__evaluate_period=0
    )
    status, _, errors = call(*arguments)
    assert status == 0, errors
    return run_dir


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def checkpoints(run_dir: Path) -> RunCheckpoints:
    return RunCheckpoints(run_dir / "checkpoints", keep=2)


def flipped(path: Path) -> Callable[[], None]:
    """Flips a bit in the middle of a file; returns what flips it back."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    def back() -> None:
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    return back


def test_the_manifest_names_and_hashes_every_part(run: Path) -> None:
    folder, manifest = checkpoints(run).read()
    assert manifest["parts"].keys() == PARTS
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == {
        "manifest.json",
        *manifest["files"],
    }
    assert manifest["code"]["version"]
    assert manifest["parts"]["counters"] == json_sha256(manifest["counters"])
    # The one before has other parameters and counters, but the same programs.
    before = json.loads((checkpoints(run).path(checkpoints(run).numbers()[-2]) / "manifest.json").read_text())
    differs = {name for name in PARTS if before["parts"][name] != manifest["parts"][name]}
    assert {"counters"} <= differs
    assert not {"programs", "config"} & differs


def test_a_flipped_bit_in_any_file_is_found_and_the_checkpoint_before_is_offered(run: Path) -> None:
    older, newer = (checkpoints(run).path(number) for number in checkpoints(run).numbers())
    files = sorted(path for path in newer.rglob("*") if path.is_file() and path.stat().st_size)
    assert len(files) > 8
    for path in files:
        back = flipped(path)
        with pytest.raises(FormatError) as caught:
            checkpoints(run).read()
        message = str(caught.value)
        assert str(path) in message
        assert f"{older} (update " in message
        assert message.endswith(f"is whole: `rm -r {newer}` to go on from it")
        back()
    checkpoints(run).read()
    # Any number of the manifest, too, though it would still be JSON.
    manifest = newer / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"step": 4', '"step": 5'))
    with pytest.raises(FormatError, match=r"manifest.json: damaged"):
        checkpoints(run).read()
    flipped(older / "actors.json")
    with pytest.raises(FormatError, match="no checkpoint before it is whole"):
        checkpoints(run).read()


def test_what_the_message_says_can_be_done(run: Path) -> None:
    older, newer = (checkpoints(run).path(number) for number in checkpoints(run).numbers())
    step = json.loads((older / "manifest.json").read_text())["counters"]["step"]
    flipped(newer / "actors.json")
    status, _, errors = call("train", "--run-dir", str(run), "--resume")
    assert status == 2
    assert errors.startswith(f"mallocmuzero: error: {newer / 'actors.json'}: damaged")
    shutil.rmtree(newer)
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--steps", "5")
    assert status == 0
    assert f"going on from update {step}" in errors
    assert counters(run)["step"] == 5
    # Of what the lost checkpoint had written, nothing is there twice.
    lines = metric_lines(run)
    for name in ("time", "play/moves", "play/episodes"):
        values = [line[name] for line in lines if name in line]
        assert values == sorted(values)
    assert len({line["time"] for line in lines}) == len(lines)


def test_a_run_that_ended_before_its_first_checkpoint_keeps_its_best_mappings(run: Path) -> None:
    program = load("tiny")
    best = run / "best" / "tiny.mapping.json.gz"
    found = solve(program, "anneal", budget=Budget(evaluations=3000))
    write_mapping(found.mapping, program, best)
    known_s = make_judge(program, None).judge(read_mapping(best, program))
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    before = {line["time"] for line in metric_lines(run)}
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--steps", "2")
    assert status == 0
    assert "starting from the beginning" in errors
    assert make_judge(program, None).judge(read_mapping(best, program)) <= known_s
    # What the first attempt has written is not counted again.
    assert not before & {line["time"] for line in metric_lines(run)}
    assert counters(run)["step"] == 2


def test_a_slice_longer_than_the_limiter_allows_waits_for_the_learner(tmp_path: Path) -> None:
    settings = {"schedule__slice_moves": 256, "replay__insert_timeout_s": 0.2, "schedule__evaluate_period": 0}
    status, _, errors = call(*train_arguments(tmp_path / "run", "--steps", "12", workload="tiny", **settings))
    assert status == 0, errors
    assert counters(tmp_path / "run")["step"] == 12


def test_a_line_of_figures_that_is_cut_off_does_not_keep_a_policy_from_being_exported(
    run: Path, tmp_path: Path
) -> None:
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(b'5\n\xff\n{"step": 3, "learner/lo')
    status, _, errors = call("export", str(run), "-o", str(tmp_path / "a.policy"))
    assert status == 0, errors
    assert (tmp_path / "a.policy").exists()


def test_a_changed_configuration_program_or_metric_file_is_noticed(run: Path) -> None:
    config = run / "config.json"
    text = config.read_text()
    config.write_text(text.replace('"td_steps": 3', '"td_steps": 4'))
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--steps", "5")
    assert status == 2
    assert "learner.td_steps is 4, but not in the last checkpoint" in errors
    config.write_text(text)
    manifest = run / "manifest.json"
    text = manifest.read_text()
    manifest.write_text(text.replace('"sha256": "', '"sha256": "0'))
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--steps", "5")
    assert status == 2
    assert "is not the program of this run" in errors
    manifest.write_text(text)
    with (run / "metrics.jsonl").open("r+b") as file:
        file.write(b"[")
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--steps", "4")
    assert status == 0
    assert "metrics.jsonl: is not as checkpoint" in errors


@pytest.mark.parametrize(
    ("limit", "words"),
    [(("--steps", "3"), "has 4 updates already, and steps is 3"), (("--minutes", "1e-6"), "and minutes is 1e-06")],
)
def test_a_run_that_has_reached_its_limit_says_so(run: Path, limit: tuple[str, str], words: str) -> None:
    status, _, errors = call("train", "--run-dir", str(run), "--resume", "--set", "steps=none", *limit)
    assert status == 0
    assert f"{words}: nothing is left to train" in errors
    assert "going on" not in errors
    assert counters(run)["step"] == 4


def test_a_lack_of_space_is_noticed_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = RunCheckpoints(tmp_path, keep=2)

    def write(size: int) -> None:
        with kept.writing() as (folder, _):
            (folder / "data").write_bytes(bytes(size))

    write(3 * 2**20)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=4 * 2**20))
    with pytest.raises(CannotSave, match=r"000002: no space for a checkpoint: it may take 4\.8 MiB, 4\.0 MiB are free"):
        write(0)
    assert [path.name for path in tmp_path.iterdir()] == ["000001"]
    monkeypatch.undo()
    write(0)
    assert kept.numbers() == [1, 2]
    # One that fails half-way leaves nothing, either.
    with limit_of_file_size(1000), pytest.raises(CannotSave, match="cannot write the checkpoint"):
        write(2000)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000001", "000002"]


class limit_of_file_size:
    """While it is entered, no file can grow beyond so many bytes: what a full disk looks like to who writes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._before[1]))

    def __exit__(self, *_: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[MetricWriter]:
    writer = MetricWriter(tmp_path / "metrics.jsonl", tmp_path / "tensorboard")
    yield writer
    writer.close()


def test_figures_on_a_full_disk_are_whole_lines_or_none(tmp_path: Path, writer: MetricWriter) -> None:
    file = tmp_path / "metrics.jsonl"
    writer.write(1, 1.0, {"a": 1.0})
    size, digest = writer.offset, writer.sha256
    with limit_of_file_size(size + 10):
        for _ in range(30):  # More than TensorBoard's own queue would hold.
            with pytest.raises(UserError, match="free space"):
                writer.write(2, 2.0, {"a": 2.0, "b": 3.0})
    assert (writer.offset, writer.sha256) == (size, digest)
    writer.write(3, 3.0, {"a": 4.0})
    assert [json.loads(line)["step"] for line in file.read_text().splitlines()] == [1, 3]
    again = MetricWriter(file, tmp_path / "tensorboard", writer.offset, 3)
    assert again.sha256 == writer.sha256
    again.close()
    assert os.path.getsize(file) == writer.offset
