"""Run directories by URL: copied after each checkpoint, fetched back, clear where that fails."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest
from launch_cases import call, train_arguments

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.storage.atomic import write_atomically
from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.url import RunUrl, is_url, local_run

SCRIPT = Path(__file__).parents[3] / "deploy" / "train-or-resume"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Working folders of this test alone, and an empty memory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.filesystem("memory").store.clear()


def there(url: str) -> set[str]:
    """Names of the files at a URL."""
    files, root = fsspec.core.url_to_fs(url)
    return {path.removeprefix(root).lstrip("/") for path in files.find(root)}


def make_run(folder: Path, checkpoints: int) -> None:
    """A folder that looks like a run's, with so many checkpoints more."""
    (folder / "best").mkdir(parents=True, exist_ok=True)
    (folder / "best" / "tiny.mapping.json.gz").write_bytes(b"mapping")
    (folder / "manifest.json").write_text("{}")
    (folder / "lock").write_text("{}")
    for _ in range(checkpoints):
        add_checkpoint(folder)


def add_checkpoint(folder: Path, content: bytes = b"0" * 2**21) -> None:
    write_checkpoint(RunCheckpoints(folder / "checkpoints", 2), content)


def write_checkpoint(checkpoints: RunCheckpoints, content: bytes = b"0") -> None:
    with checkpoints.writing() as (scratch, entries):
        (scratch / "large").write_bytes(content)
        entries |= {"counters": {"step": 0}, "metrics_offset": 0}


def numbers(url: str) -> set[int]:
    """Numbers of the checkpoints at a URL, whole or not."""
    return {int(name.split("/")[1]) for name in there(url) if name.startswith("checkpoints/")}


def fail(*arguments: Any, **options: Any) -> None:
    raise ConnectionResetError("the network is gone")


class Puts:
    """Names of the files that are copied to a URL from now on, in order; `before` is called before each copy."""

    def __init__(self, run: RunUrl, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.before: Callable[[Path], None] = lambda path: None
        self._folder, self._put = run.folder, run._files.put_file
        # Instances of a file system are shared.
        monkeypatch.setattr(run._files, "put_file", self)

    def __call__(self, path: str, at: str) -> None:
        self.before(Path(path))
        self._put(path, at)
        self.names.append(str(Path(path).relative_to(self._folder)))


def test_a_run_is_trained_resumed_shown_and_exported_at_a_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/store/run"
    arguments = train_arguments(tmp_path, "--steps", "6", workload="tiny", schedule__evaluate_period=0)
    arguments[arguments.index("--run-dir") + 1] = url
    status, output, errors = call(*arguments)
    assert status == 0, errors
    assert f"is at {url}" in output
    assert list((tmp_path / "cache" / "mallocmuzero" / "runs").glob("*/*")) == [
        *(tmp_path / "cache" / "mallocmuzero" / "runs").glob("*/lock")
    ]
    assert {"manifest.json", "config.json", "metrics.jsonl", "best/tiny.png", "evaluation.json"} <= there(url)
    status, _, errors = call(*arguments)
    assert (status, errors.splitlines()[-1]) == (
        2,
        f"mallocmuzero: error: {url}: holds a run already; continue it with --resume, or choose another URL",
    )
    status, _, errors = call("train", "--run-dir", url, "--resume", "--steps", "9")
    assert status == 0, errors
    assert f"{url}: going on from update 6" in errors
    status, output, _ = call("status", url, "--json", "-")
    said = json.loads(output)
    assert (said["step"], said["run_dir"], said["running"]) == (9, url, None)
    assert said["parameters_sha256"] is not None
    assert call("export", url, "-o", str(tmp_path / "a.policy"))[0] == 0
    status, _, errors = call("train", "--run-dir", f"file://{tmp_path}/none", "--resume")
    assert "holds no run (manifest.json is missing); check the URL" in errors


def test_what_is_at_the_url_is_whole_and_no_more_than_asked_for(tmp_path: Path) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    run.push(keep=2)
    first = {"checkpoints/000001/large", "checkpoints/000001/manifest.json"}
    assert there(run.url) == {"manifest.json", "best/tiny.mapping.json.gz", *first}
    add_checkpoint(run.folder)
    add_checkpoint(run.folder)
    run.push_soon(2, RunCheckpoints(run.folder / "checkpoints", 2))
    run.wait()
    # The second was never the last when a copy was made.
    assert {name.split("/")[1] for name in there(run.url) if "/large" in name} == {"000001", "000003"}
    files, root = fsspec.core.url_to_fs(run.url)
    files.pipe_file(f"{root}/checkpoints/000004/large", b"half")  # An interrupted copy has no manifest.

    fetched = RunUrl(run.url, tmp_path / "other")
    assert fetched.begin(resume=True) is None
    assert sorted(path.name for path in (fetched.folder / "checkpoints").iterdir()) == ["000003"]
    add_checkpoint(fetched.folder, b"whole")
    fetched.end(keep=1)
    assert there(run.url) == {
        *("manifest.json", "best/tiny.mapping.json.gz"),
        *("checkpoints/000004/large", "checkpoints/000004/manifest.json"),
    }
    assert files.cat_file(f"{root}/checkpoints/000004/large") == b"whole"
    assert not (fetched.folder / "checkpoints").exists()

    with local_run(run.url) as folder:
        assert (folder / "checkpoints" / "000004" / "large").read_bytes() == b"whole"
    assert not folder.exists()


def test_small_copies_leave_large_files_out(tmp_path: Path) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    run.push(keep=2)
    with local_run(run.url, small=True) as folder:
        assert [path.name for path in (folder / "checkpoints" / "000001").iterdir()] == ["manifest.json"]
    with local_run(tmp_path / "as it is") as folder:
        assert folder == tmp_path / "as it is"


def test_a_copy_that_fails_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    run.push(keep=2)
    add_checkpoint(run.folder)
    with monkeypatch.context() as patched:
        patched.setattr(run._files, "put_file", fail)
        run.push_soon(2, RunCheckpoints(run.folder / "checkpoints", 2))  # Training goes on.
        with pytest.raises(
            UserError, match=r"cannot be written \(ConnectionResetError: the network is gone\).*the run is in"
        ):
            run.end(keep=2)
    again = RunUrl(run.url, run.folder)
    assert "which is ahead of memory://bucket/run" in str(again.begin(resume=True))
    assert RunCheckpoints(run.folder / "checkpoints", 2).numbers() == [1, 2]
    again.push(keep=2)
    assert again.begin(resume=True) is None
    shutil.rmtree(run.folder)


def test_a_run_that_never_reached_the_url_is_kept_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    with monkeypatch.context() as patched:
        patched.setattr(run._files, "put_file", fail)
        with pytest.raises(UserError, match="--resume on this machine goes on there"):
            run.end(keep=2)
    run = RunUrl(run.url, run.folder)
    with pytest.raises(UserError, match=f"^{run.folder}: holds a run that is not at .*--resume, or `rm -r"):
        run.begin(resume=False)
    assert RunCheckpoints(run.folder / "checkpoints", 2).numbers() == [1]
    assert f"going on from {run.folder}" in str(run.begin(resume=True))
    assert RunCheckpoints(run.folder / "checkpoints", 2).numbers() == [1]
    run.end(keep=2)
    assert {"manifest.json", "checkpoints/000001/manifest.json"} <= there(run.url)
    # A new run takes over what an interrupted beginning has left: a folder without a run.
    new = RunUrl("memory://bucket/new", run.folder)
    (run.folder / "config.json").write_text("{}")
    assert new.begin(resume=False) is None
    assert [path.name for path in new.folder.iterdir()] == ["lock"]


def test_a_scheduler_resumes_a_run_that_never_reached_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path}/store/run"
    arguments = train_arguments(tmp_path, "--steps", "3", workload="tiny", schedule__evaluate_period=0)
    arguments[arguments.index("--run-dir") + 1] = url
    run = RunUrl(url)
    with monkeypatch.context() as patched:
        patched.setattr(type(run._files), "put_file", fail)
        status, _, errors = call(*arguments)
    assert status == 2
    assert f"the run is in {run.folder}, and --resume on this machine goes on there" in errors
    status, _, errors = call(*arguments)
    assert status == 2
    assert f"{run.folder}: holds a run that is not at {url}" in errors

    command = tmp_path / "bin" / "mallocmuzero"
    command.parent.mkdir()
    command.write_text(
        '#!/bin/sh\n[ "$1" = train ] && exec printf "%s\\n" "$@"\n'
        f'exec {sys.executable} -m mallocmuzero.launch.cli "$@"\n'
    )
    command.chmod(0o755)
    said = subprocess.run(
        [SCRIPT, url, "unread.toml"],
        env={**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.split() == ["train", "--run-dir", url, "--resume", "--address", "auto"]
    assert f"{url}: holds no run yet; this is the one in {run.folder}" in said.stderr

    status, _, errors = call("train", "--run-dir", url, "--resume", "--steps", "5")
    assert status == 0, errors
    assert f"going on from {run.folder}" in errors
    assert f"{url}: going on from update 3" in errors
    assert "manifest.json" in there(url)


def test_files_that_are_written_meanwhile_are_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    # A run's own file may be hidden.
    (run.folder / "best" / ".odd.mapping.json.gz").write_bytes(b"mapping")
    replace = os.replace

    def push_before(source: str, target: Path) -> None:
        assert Path(source).exists()
        run.push(keep=2)
        replace(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", push_before)
        write_atomically(run.folder / "best" / "new.mapping.json.gz", b"mapping")
    names = {"best/tiny.mapping.json.gz", "best/.odd.mapping.json.gz"}
    assert {name for name in there(run.url) if name.startswith("best/")} == names
    run.push(keep=2)
    assert {name for name in there(run.url) if name.startswith("best/")} == names | {"best/new.mapping.json.gz"}


def test_files_that_vanish_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    (run.folder / "gone").write_bytes(b"")
    puts = Puts(run, monkeypatch)
    puts.before = lambda path: path.unlink() if path.name == "gone" else None
    run.push(keep=2)
    assert {"manifest.json", "checkpoints/000001/manifest.json", "best/tiny.mapping.json.gz"} <= there(run.url)
    assert "gone" not in there(run.url)

    # But a storage that misses something has failed, and so has the copy of a checkpoint that vanishes.
    def miss(path: Path) -> None:
        raise FileNotFoundError("no such bucket")

    puts.before = miss
    (run.folder / "log.txt").write_text("more")
    with pytest.raises(UserError, match=r"cannot be written .*no such bucket"):
        run.push(keep=2)
    other = RunUrl("memory://bucket/other", run.folder)
    for vanishing in ("large", "manifest.json"):
        puts.before = lambda path, name=vanishing: path.unlink() if path.name == name else None  # type: ignore[misc]
        with pytest.raises(UserError, match="cannot be written"):
            other.push(keep=2)
    assert "checkpoints/000001/manifest.json" not in there(other.url)


def test_half_copied_checkpoints_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    run.push(keep=2)
    add_checkpoint(run.folder)
    puts = Puts(run, monkeypatch)
    puts.before = lambda path: fail() if path.name == "manifest.json" else None
    with pytest.raises(UserError, match="cannot be written"):
        run.push(keep=2)
    assert numbers(run.url) == {1, 2}
    puts.before = lambda path: None
    add_checkpoint(run.folder)
    run.push(keep=2)
    assert numbers(run.url) == {1, 3}
    add_checkpoint(run.folder)
    # What is beyond the last checkpoint is not this run's, and displaces none of its own.
    run._files.pipe_file(run._at("checkpoints/000009/manifest.json"), b"{}")
    run.push(keep=2)
    assert numbers(run.url) == {3, 4, 9}


def test_training_goes_on_while_a_checkpoint_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 0)
    checkpoints = RunCheckpoints(run.folder / "checkpoints", 1)
    puts = Puts(run, monkeypatch)
    copying, go_on = threading.Event(), threading.Event()

    def hold(path: Path) -> None:
        if path.parent.name == "000001":
            copying.set()
            go_on.wait(20)

    puts.before = hold
    write_checkpoint(checkpoints)
    run.push_soon(1, checkpoints)
    assert copying.wait(20)
    for _ in range(3):
        write_checkpoint(checkpoints)
        run.push_soon(1, checkpoints)
    assert puts.names == ["best/tiny.mapping.json.gz"]  # The first copy is still under way.
    assert checkpoints.numbers() == [1, 4]
    # One copies, one waits.
    assert [thread.name for thread in threading.enumerate()].count("run-url") == 2
    go_on.set()
    run.wait()
    parts = [name for name in puts.names if name.startswith("checkpoints/")]
    assert parts == [
        f"checkpoints/{number}/{part}" for number in ("000001", "000004") for part in ("large", "manifest.json")
    ]
    assert numbers(run.url) == {4}
    write_checkpoint(checkpoints)
    assert checkpoints.numbers() == [5]


def test_unchanged_files_are_not_copied_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    make_run(run.folder, 1)
    (run.folder / "metrics.jsonl").write_text("1")
    run.push(keep=2)
    puts = Puts(run, monkeypatch)
    run.push(keep=2)
    assert puts.names == []
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write("2")
    run.push(keep=2)
    assert puts.names == ["metrics.jsonl"]
    # Of equal size, but of another time.
    mapping = run.folder / "best" / "tiny.mapping.json.gz"
    write_atomically(mapping, b"another"[: mapping.stat().st_size])
    os.utime(mapping, ns=(0, 1))
    run.push(keep=2)
    assert puts.names == ["metrics.jsonl", "best/tiny.mapping.json.gz"]
    run._files.rm_file(run._at("metrics.jsonl"))
    run.push(keep=2)
    assert puts.names == ["metrics.jsonl", "best/tiny.mapping.json.gz", "metrics.jsonl"]
    # A file whose copy has failed is copied next time.
    (run.folder / "metrics.jsonl").write_text("123")
    puts.before = lambda path: fail()
    with pytest.raises(UserError, match="cannot be written"):
        run.push(keep=2)
    puts.before, puts.names = lambda path: None, []
    run.push(keep=2)
    assert puts.names == ["metrics.jsonl"]
    # Nor are those that have just been fetched.
    fetched = RunUrl(run.url, run.folder)
    fetched.begin(resume=True)
    puts.names = []
    fetched.push(keep=2)
    assert puts.names == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nowhere://bucket/run", "Protocol not known: nowhere.*pip install"),
        ("memory://bucket/none", "holds no run"),
    ],
)
def test_what_cannot_be_opened_is_said(url: str, message: str) -> None:
    with pytest.raises(UserError, match=message), local_run(url):
        pass


def test_no_name_leads_out_of_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "a" / "work")
    monkeypatch.setattr(run, "_there", lambda: {"manifest.json": 2, "../../outside": 3})
    fsspec.filesystem("memory").pipe_file("/bucket/run/manifest.json", b"{}")
    with pytest.raises(FormatError, match="no name of a file in it"):
        run.fetch()
    assert not (tmp_path / "outside").exists()


def test_what_is_a_url() -> None:
    assert is_url("s3://bucket/run")
    assert is_url("simplecache::gs://bucket/run")
    assert not is_url("runs/first")
    assert not is_url(Path("s3://bucket/run"))
    assert not is_url("./odd://name")


def test_a_working_folder_that_cannot_be_written_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    for arguments in (
        ["train", "--run-dir", "memory://bucket/run", "--resume"],
        train_arguments("memory://bucket/run", "--steps", "1"),  # type: ignore[arg-type]
    ):
        status, _, errors = call(*arguments)
        assert status == 2
        assert "cannot be the working folder of memory://bucket/run (Not a directory); set XDG_CACHE_HOME" in errors


@pytest.mark.parametrize("resume", [False, True])
def test_a_url_that_cannot_be_written_is_told_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resume: bool
) -> None:
    run = RunUrl("memory://bucket/run", tmp_path / "work")
    if resume:
        run._files.pipe_file("/bucket/run/manifest.json", b"{}")
    run.check(resume)
    assert there(run.url) == ({"manifest.json"} if resume else set())
    monkeypatch.setattr(run._files, "pipe_file", fail)
    with pytest.raises(UserError, match=r"^memory://bucket/run: cannot be written \(.*\); check network and rights"):
        run.check(resume)
