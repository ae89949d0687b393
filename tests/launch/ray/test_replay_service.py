"""The replay counts of a run go on across a lost server. No Ray and no server is started."""

from mallocmuzero.launch.ray.replay_service import ReplayCounts
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
