"""The in-process replay repeats bit for bit, and its store frees the rows that nobody holds."""

import copy

import numpy as np
import pytest
from replay_cases import FREE, PACED, SPEC, content, contents, episode, expected, play, segments

from mallocmuzero.env.errors import UserError
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.local.replay import LocalReplay


class Loop:
    """A single-process training loop over several games, in small: everything it does is drawn from `rng`."""

    def __init__(self, replay, games=3):
        self.replay = replay
        self.rng = np.random.default_rng(7)
        self.next_seed = 0
        self.games = [[] for _ in range(games)]
        self.trace = []

    def run(self, turns):
        while len(self.replay.open_writers) < len(self.games):
            self.replay.writer()
        for _ in range(turns):
            if self.replay.can_sample(6):
                batch = self.replay.sample(6, 0)
                self.trace.append((contents(batch), batch.key.tolist(), batch.probability.tolist(), batch.table_size))
                self.replay.update_priorities(batch.key, self.rng.exponential(size=6))
            else:
                assert self.replay.can_insert(), "neither side may go on"
                for number in range(len(self.games)):
                    self.move(number)

    def move(self, number):
        game, writer = self.games[number], self.replay.open_writers[number]
        if not game:
            self.next_seed += 1
            game.extend(episode(int(self.rng.integers(1, 20)), self.next_seed))
        writer.append(game.pop(0))
        if not game:
            writer.end_episode()


@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_a_restored_replay_repeats_the_run_bit_for_bit(tmp_path, bits):
    one = Loop(LocalReplay(PACED, SPEC, np.random.Generator(bits(3))))
    one.run(301)
    # The interesting state: unfinished episodes, and segments that the limiter holds.
    while not (one.replay.waiting and all(writer.window for writer in one.replay.open_writers)):
        one.move(0)
    one.replay.checkpoint(tmp_path / "c")

    other = Loop(LocalReplay(PACED, SPEC, np.random.default_rng(11)))
    other.run(20)  # Whatever was there before is replaced.
    other.replay.restore(tmp_path / "c")
    other.games, other.rng, other.next_seed = copy.deepcopy((one.games, one.rng, one.next_seed))
    one.trace.clear()
    other.trace.clear()
    one.run(400)
    other.run(400)
    assert len(one.trace) > 100
    assert one.trace == other.trace
    assert one.replay.stats() == other.replay.stats()
    one.replay.checkpoint(tmp_path / "one")
    other.replay.checkpoint(tmp_path / "other")
    assert (tmp_path / "one" / "replay.json").read_text() == (tmp_path / "other" / "replay.json").read_text()


def test_segments_in_line_survive_a_checkpoint(tmp_path):
    replay = LocalReplay(PACED, SPEC, np.random.default_rng(0))
    writer = replay.writer()
    for step in episode(60)[: SPEC.length + 2 * 15]:
        writer.append(step)
    assert replay.waiting == 2
    replay.checkpoint(tmp_path / "c")
    restored = LocalReplay(PACED, SPEC, np.random.default_rng(1))
    restored.restore(tmp_path / "c")
    (writer,) = restored.open_writers
    with pytest.raises(ReplayTimeout, match="2 segments still wait"):
        writer.flush(0)
    restored.sample(4, 0)
    writer.flush(0)
    assert restored.stats().inserts == 16


def test_writers_of_before_a_restore_no_longer_write(tmp_path):
    replay = LocalReplay(FREE, SPEC, np.random.default_rng(0))
    writer = replay.writer()
    replay.checkpoint(tmp_path / "c")
    replay.restore(tmp_path / "c")
    with pytest.raises(ValueError, match="restored since"):
        writer.append(episode(3)[0])
    assert len(replay.open_writers) == 1


def test_a_loop_that_asks_never_waits_and_keeps_the_ratio():
    loop = Loop(LocalReplay(PACED, SPEC, np.random.default_rng(0)))
    low, high = PACED.error_range
    for _ in range(200):
        loop.run(5)
        stats = loop.replay.stats()
        if stats.size >= PACED.min_size:
            assert low <= stats.inserts * PACED.samples_per_insert - stats.samples <= high
    assert stats.insert_blocked_s == stats.sample_blocked_s == 0
    assert stats.inserts > 200


def test_rows_are_stored_once_and_freed():
    replay = LocalReplay(FREE, SPEC, np.random.default_rng(0))
    writer = replay.writer()
    for seed in range(60):
        play(writer, episode(1 + seed % 23, seed))
        # Segments of ended episodes own `period` rows each; nobody else holds any.
        assert replay.table.store.used <= FREE.capacity * SPEC.period
    for step in episode(40)[:31]:
        writer.append(step)
    writer.close()
    assert replay.table.store.used <= FREE.capacity * SPEC.period + SPEC.length


def test_the_store_grows_when_episodes_are_given_up():
    replay = LocalReplay(FREE, SPEC, np.random.default_rng(0))
    before = len(replay.table.store.uses)
    writers = []
    # Every writer keeps a window of its own and abandons it: more rows per segment than the store starts with.
    for seed in range(200):
        writers.append(replay.writer())
        for step in episode(20, seed)[: SPEC.length]:
            writers[-1].append(step)
    assert len(replay.table.store.uses) > before
    for writer in writers:
        writer.close()
    assert replay.table.store.used == FREE.capacity * SPEC.length
    wanted = {content(next(segments(SPEC, episode(20, seed)))) for seed in range(200 - FREE.capacity, 200)}
    found = {drawn for _ in range(20) for drawn in contents(replay.sample(64, 0))}
    assert found == wanted


def test_a_full_disk_is_told_in_one_line(tmp_path, monkeypatch):
    replay = LocalReplay(FREE, SPEC, np.random.default_rng(0))

    def full(path, **_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(UserError, match=r"table\.npz: cannot write the replay checkpoint: No space left on device"):
        replay.checkpoint(tmp_path / "c")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_writer_leaves_its_segments_in_the_table():
    replay = LocalReplay(FREE, SPEC, np.random.default_rng(0))
    writer = replay.writer()
    steps = episode(30)
    for step in steps[:11]:
        writer.append(step)
    replay.close()
    assert replay.open_writers == []
    assert replay.stats().size == 3
    assert set(contents(replay.sample(64, 0))) <= expected(steps)
