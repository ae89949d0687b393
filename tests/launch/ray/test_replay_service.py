"""The replay of a run as its driver sees it: a server that dies, and counts that go on. Nothing is started."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from mallocmuzero.launch.ray.calls import Lost
from mallocmuzero.launch.ray.replay_service import ReplayCounts, ReplayService
from mallocmuzero.replay.interface import ReplayStats


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
