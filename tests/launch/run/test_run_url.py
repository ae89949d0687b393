"""Run directories by URL: copied after each checkpoint, fetched back, clear where that fails."""

import json
import shutil
from pathlib import Path
from typing import Any

import fsspec
import pytest
from launch_cases import call, train_arguments

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.url import RunUrl, is_url, local_run


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
    checkpoint = RunCheckpoints(folder / "checkpoints", 2)
    with checkpoint.writing() as (scratch, entries):
        (scratch / "large").write_bytes(content)
        entries |= {"counters": {"step": 0}, "metrics_offset": 0}


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
    run.push_soon(keep=2)
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

    def fail(*arguments: Any, **options: Any) -> None:
        raise ConnectionResetError("the network is gone")

    with monkeypatch.context() as patched:
        patched.setattr(run._files, "put_file", fail)
        run.push_soon(keep=2)  # Training goes on.
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
