"""The replay of a run as its driver sees it: a server that dies or has a full disk, and counts that go on."""

import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from installed import REVERB
from replay_cases import FREE, SPEC, episode, play

from mallocmuzero.launch.ray.calls import Lost
from mallocmuzero.launch.ray.replay_service import ReplayCounts, ReplayService
from mallocmuzero.launch.run.checkpoints import CannotSave, RunCheckpoints
from mallocmuzero.replay.interface import ReplayStats
from mallocmuzero.replay.reverb.client import ReverbReplay


def test_inserts_go_on_where_the_run_was_though_the_table_is_older() -> None:
    def stats(inserts: int, samples: int) -> ReplayStats:
        return ReplayStats(7, inserts, samples, 0.0, 0.0)

    before = ReplayCounts(None)
    assert before.of(stats(10, 20)) == stats(10, 20)
    assert before.of(stats(50, 100)) == stats(50, 100)
    # The server dies; its table is that of 30 inserts.
    after = ReplayCounts(before.entry)
    assert after.of(stats(30, 60)) == stats(50, 100)
    assert after.of(stats(31, 61)) == stats(51, 101)
    # Then an ordinary end, whose table is as new as its counts.
    last = ReplayCounts(after.entry)
    assert last.of(stats(31, 61)) == stats(51, 101)
    assert ReplayCounts({"counters": {}}).of(stats(3, 4)) == stats(3, 4)


class Dying:
    """Servers that live for a time."""

    log, end = "starting\nready\n", "signal 9"

    def __init__(self, lives_s: float) -> None:
        self._until = time.monotonic() + lives_s

    @property
    def alive(self) -> bool:
        return time.monotonic() < self._until


def test_a_server_that_is_about_to_end_is_waited_for() -> None:
    def check(servers: Any, grace_s: float) -> None:
        ReplayService.check(SimpleNamespace(servers=servers), grace_s)

    check(Dying(60.0), 0.0)
    check(Dying(60.0), 0.05)
    # Its clients know before its process has ended.
    with pytest.raises(Lost, match="the replay server died: signal 9; its last line was 'ready'"):
        check(Dying(0.1), 30.0)
    with pytest.raises(Lost, match="died"):
        check(Dying(0.0), 0.0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 1 MiB, where the system lets a test have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
    try:
        mounted = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("no `mount`")
    if mounted.returncode:
        pytest.skip(mounted.stderr.strip())
    yield disk
    subprocess.run(["umount", disk], check=True)


@pytest.mark.skipif(not REVERB, reason="Reverb is not installed")
def test_a_full_disk_of_the_replay_server_does_not_end_the_run(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    config: Any = SimpleNamespace(replay=FREE, segment_spec=SPEC)
    cluster: Any = SimpleNamespace(host="localhost")
    checkpoints = RunCheckpoints(tmp_path / "checkpoints", keep=2)
    with ExitStack() as stack:
        service = ReplayService(config, cluster, None, stack)
        actor = ReverbReplay(service.servers.addresses[0], FREE, SPEC)
        stack.callback(actor.close)
        writer = actor.writer()
        play(writer, episode(SPEC.period * 40, 1))
        writer.flush(10)
        writer.close()
        with (small_disk / "filler").open("wb", buffering=0) as filler:
            while True:
                try:
                    filler.write(bytes(4096))
                except OSError:
                    break
            filler.truncate(filler.tell() - 8192)  # room for the first of its files
        for _ in range(2):
            with pytest.raises(CannotSave, match="No space left on device"), checkpoints.writing() as (folder, _):
                service.checkpoint(folder / "replay")
            assert list(small_disk.glob("*/checkpoints/*")) == []
        service.check()
        (small_disk / "filler").unlink()
        with checkpoints.writing() as (folder, _):
            service.checkpoint(folder / "replay")
        assert checkpoints.numbers() == [1]
