"""The promises of both replays. The Reverb half is skipped where Reverb cannot be installed (Python 3.12 and later)."""

import dataclasses
import threading

import numpy as np
import pytest
from installed import REVERB
from replay_cases import FREE, PACED, SPEC, contents, episode, expected, play

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.local.replay import LocalReplay
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.reverb.table import TABLE

needs_reverb = pytest.mark.skipif(not REVERB, reason="Reverb is not installed")


class LocalCase:
    """Makes in-process replays."""

    def open(self, config, spec=SPEC):
        return LocalReplay(config, spec, np.random.default_rng(0))

    def settle(self, replay):
        """Makes sure that the next batch is drawn after all that came before."""

    def close(self):
        pass


class ReverbCase:
    """Makes Reverb replays; a server per configuration, emptied between tests.

    Servers that hold a ratio serve one test: they may still answer what an earlier one asked for, and so make room.
    """

    def __init__(self):
        self.servers, self.replays = {}, []

    def open(self, config, spec=SPEC):
        server = self.servers.get(config)
        if server is None:
            server = self.servers[config] = ReplayServer(config, spec)
        replay = ReverbReplay(server.address, config, spec, server=server)
        replay._client.reset(TABLE)
        self.replays.append(replay)
        return replay

    def settle(self, replay):
        """Drops the batches fetched ahead, once the server has the priorities."""
        replay.flush_priorities(10)
        replay._close_fetcher()

    def end_test(self):
        while self.replays:
            self.replays.pop().close()
        for config in set(self.servers) - {FREE}:
            self.servers.pop(config).stop()

    def close(self):
        for server in self.servers.values():
            server.stop()


@pytest.fixture(scope="module")
def reverb_case():
    case = ReverbCase()
    yield case
    case.close()


@pytest.fixture(params=["local", pytest.param("reverb", marks=needs_reverb)])
def case(request):
    if request.param == "local":
        yield LocalCase()
        return
    case = request.getfixturevalue("reverb_case")
    yield case
    case.end_test()


def test_sampled_segments_are_exactly_those_of_the_episodes(case):
    replay = case.open(FREE)
    episodes = [episode(length, seed=length) for length in (1, 2, 7, 15, 16)]
    # Two games at a time, step by step in turn.
    for one, two in ((episodes[0], episodes[4]), (episodes[1], episodes[3]), (episodes[2], [])):
        writers = replay.writer(), replay.writer()
        for place in range(max(len(one), len(two))):
            for writer, steps in zip(writers, (one, two), strict=True):
                if place < len(steps):
                    writer.append(steps[place])
        for writer in writers:
            writer.end_episode()
            writer.flush(10)
            writer.close()
    everything = expected(*episodes)
    assert replay.stats().size == len(everything)
    found = set()
    for _ in range(30):
        found.update(contents(replay.sample(16, 10)))
    assert found == everything


def test_a_batch_has_the_promised_arrays(case):
    replay = case.open(FREE)
    writer = replay.writer()
    play(writer, episode(9))
    writer.flush(10)
    batch = replay.sample(7, 10)
    for name, (shape, dtype) in SPEC.fields.items():
        array = getattr(batch, name)
        assert array.shape == (7, SPEC.length, *shape)
        assert array.dtype == dtype
    assert batch.key.shape == (7,)
    assert batch.key.dtype == np.uint64
    assert batch.probability.dtype == np.float64
    np.testing.assert_allclose(batch.probability, 1 / 5)
    assert batch.table_size == 5


def test_segments_arrive_while_the_episode_goes_on(case):
    replay = case.open(FREE)
    writer = replay.writer()
    for step in episode(100)[:8]:
        writer.append(step)
    writer.flush(10)
    assert replay.stats().size == 2


def test_one_writer_plays_one_episode_after_another(case):
    replay = case.open(FREE)
    writer = replay.writer()
    episodes = [episode(length, seed=length) for length in (3, 1, 12)]
    for steps in episodes:
        play(writer, steps)
    writer.end_episode()  # Nothing begun, nothing to end.
    writer.flush(10)
    found = set()
    for _ in range(20):
        found.update(contents(replay.sample(16, 10)))
    assert found == expected(*episodes)


def test_the_oldest_segments_leave_first(case):
    replay = case.open(FREE)
    writer = replay.writer()
    old, new = episode(40, seed=1), episode(2 * FREE.capacity, seed=2)
    play(writer, old)
    play(writer, new)
    writer.flush(10)
    assert replay.stats().size == FREE.capacity
    assert replay.stats().inserts == 20 + FREE.capacity
    found = set()
    for _ in range(20):
        found.update(contents(replay.sample(64, 10)))
    assert found == expected(new)


def test_priorities_decide_what_is_drawn(case):
    replay = case.open(FREE)
    writer = replay.writer()
    play(writer, episode(8))
    writer.flush(10)
    keys = np.unique(np.concatenate([replay.sample(16, 10).key for _ in range(8)]))
    assert len(keys) == 4
    replay.update_priorities(keys, np.array([0.0, 1.0, 4.0, 9.0]))
    # Of equal keys the last counts; a key that nobody has is skipped.
    replay.update_priorities(np.array([keys[0], keys[0], 2**63], np.uint64), np.array([7.0, 0.0, 1.0]))
    case.settle(replay)
    batches = [replay.sample(100, 10) for _ in range(10)]
    drawn, probability = (np.concatenate([getattr(b, name) for b in batches]) for name in ("key", "probability"))
    for key, share in zip(keys, np.array([0, 1, 2, 3]) / 6, strict=True):
        np.testing.assert_allclose(probability[drawn == key], share)
        # 1000 draws: five standard deviations are 0.08.
        assert abs((drawn == key).mean() - share) < 0.08


def test_all_priorities_zero_means_uniform(case):
    replay = case.open(FREE)
    writer = replay.writer()
    play(writer, episode(8))
    writer.flush(10)
    keys = np.unique(np.concatenate([replay.sample(16, 10).key for _ in range(8)]))
    replay.update_priorities(keys, np.zeros(len(keys)))
    case.settle(replay)
    batch = replay.sample(32, 10)
    np.testing.assert_allclose(batch.probability, 1 / 4)
    assert set(batch.key) <= set(keys)


@pytest.mark.parametrize(
    ("keys", "priorities"), [([1, 2], [1.0]), ([1], [-1.0]), ([1], [np.nan]), ([1], [np.inf]), ([[1]], [[1.0]])]
)
def test_bad_priorities_are_refused(case, keys, priorities):
    with pytest.raises(ValueError, match="priorities"):
        case.open(FREE).update_priorities(np.array(keys), np.array(priorities))


def test_misuse_of_a_writer_is_refused(case):
    writer = case.open(FREE).writer()
    steps = episode(4)
    writer.append(steps[0])
    with pytest.raises(ValueError, match="discount"):
        writer.end_episode()
    with pytest.raises(ValueError, match="shape"):
        writer.append(steps[1]._replace(observation=np.zeros(9)))
    writer.append(steps[3])
    with pytest.raises(ValueError, match="the episode is over"):
        writer.append(steps[1])
    writer.close()
    writer.close()
    for call in (lambda: writer.append(steps[0]), writer.end_episode, lambda: writer.flush(1)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_waiting_ends_in_a_time_out(case):
    replay = case.open(PACED)
    with pytest.raises(ReplayTimeout, match=r"no batch of 8 .*0 segments in the table \(min_size 4\)"):
        replay.sample(8, 0.3)
    case.settle(replay)  # Fetching ahead would make room.
    writer = replay.writer()
    # 14 segments put the error at 28 = 4 * 2 + 20; the 15th waits.
    play(writer, episode(2 * 15))
    with pytest.raises(ReplayTimeout, match="still wait"):
        writer.flush(0.3)
    assert replay.stats().inserts == 14
    assert replay.stats().insert_blocked_s > 0.2
    assert replay.stats().sample_blocked_s > 0.2
    # Sampling makes room.
    replay.sample(8, 10)
    writer.flush(10)
    assert replay.stats().inserts == 15


def test_append_waits_for_room_and_loses_nothing(case):
    replay = case.open(PACED)
    writer = replay.writer()
    steps = iter(episode(60))
    refused = None
    for step in steps:
        try:
            writer.append(step)
        except ReplayTimeout:
            refused = step
            break
    assert refused is not None
    # 14 in the table, at most 3 waiting; the refused step completes the next.
    assert replay.stats().inserts == 14
    rest = [refused, *steps]
    assert len(rest) > 20
    found = {content for content, _ in drive(replay, writer, rest).values()}
    assert replay.stats().inserts == 30
    assert found <= expected(episode(60))


def test_the_limiter_holds_the_ratio(case):
    replay = case.open(PACED)
    stop = threading.Event()
    low, high = PACED.error_range

    def act(seed):
        writer = replay.writer()
        steps = iter(())
        step = None
        while not stop.is_set():
            if step is None:
                step = next(steps, None)
            if step is None:
                writer.end_episode()
                steps = iter(episode(11, seed))
                continue
            try:
                writer.append(step)
                step = None
            except ReplayTimeout:
                continue
        writer.close()

    actors = [threading.Thread(target=act, args=(seed,)) for seed in (1, 2)]
    for actor in actors:
        actor.start()
    errors = []
    for _ in range(60):
        replay.sample(8, 20)
        stats = replay.stats()
        errors.append(stats.inserts * PACED.samples_per_insert - stats.samples)
    stop.set()
    for actor in actors:
        actor.join(20)
        assert not actor.is_alive()
    assert stats.inserts > 200
    assert min(errors) >= low
    assert max(errors) <= high


def test_a_time_out_loses_no_sample(case):
    replay = case.open(PACED)
    writer = replay.writer()
    play(writer, episode(2 * 14))
    writer.flush(60)  # a busy machine may take its time; only a limiter that is wrong never lets go
    # 14 inserts allow 14 * 2 + 12 samples: six batches of 6, and 4 segments of the seventh.
    for _ in range(6):
        replay.sample(6, 10)
    with pytest.raises(ReplayTimeout):
        replay.sample(6, 0.7)
    # Two more inserts allow four samples: too few if those four were lost. (Reverb itself may lose one whose stream
    # times out in the very moment it comes, which two would not forgive.)
    play(writer, episode(4))
    writer.flush(60)
    replay.sample(6, 10)


def test_batches_that_could_deadlock_are_refused(case):
    replay = case.open(PACED)
    with pytest.raises(UserError, match="batches of 39 need at least"):
        replay.sample(39, 1)
    with pytest.raises(UserError, match="batch size is 0"):
        replay.sample(0, 1)


def drive(replay, writer, steps):
    """Plays an episode, sampling whenever the limiter holds it; returns key -> (content, probability)."""
    drawn = {}

    def draw():
        batch = replay.sample(4, 10)
        drawn.update(zip(batch.key.tolist(), zip(contents(batch), batch.probability, strict=True), strict=True))

    for step in steps:
        while True:
            try:
                writer.append(step)
                break
            except ReplayTimeout:
                draw()
    writer.end_episode()
    while True:
        try:
            writer.flush(0.2)
            return drawn
        except ReplayTimeout:
            draw()


def test_a_restored_replay_goes_on_where_the_checkpoint_was(case, tmp_path):
    replay = case.open(PACED)
    writer = replay.writer()
    play(writer, old := episode(2 * 14, seed=1))
    writer.flush(10)
    # As many inserts as the limiter allows: the state in which a restored table blocks writers.
    favourite = replay.sample(4, 10).key[0]
    drive(replay, writer, two := episode(2 * 10, seed=2))
    writer.close()
    case.settle(replay)
    replay.update_priorities(np.array([favourite]), np.array([900.0]))
    case.settle(replay)
    before = replay.stats()
    replay.checkpoint(tmp_path / "a" / "replay")
    late = replay.writer()
    drive(replay, late, episode(6, seed=9))
    late.close()

    replay.restore(tmp_path / "a" / "replay")
    after = replay.stats()
    assert (after.size, after.inserts, after.samples) == (before.size, before.inserts, before.samples)
    drawn = drive(replay, replay.writer(), new := episode(2 * 30, seed=3))
    assert replay.stats().inserts == before.inserts + 30
    # Nothing of what came after the checkpoint; the favourite is still one.
    assert {content for content, _ in drawn.values()} <= expected(old, two, new)
    likely = max(drawn, key=lambda key: drawn[key][1])
    assert likely == favourite
    assert drawn[likely][1] > 0.3


def test_a_restored_table_obeys_todays_limiter(case, tmp_path):
    """A checkpoint written when nothing paced actors, restored where something does, and the other way round."""
    source = case.open(FREE)
    writer = source.writer()
    play(writer, episode(2 * 50))
    writer.flush(10)
    source.checkpoint(tmp_path / "free")
    paced = case.open(PACED)
    paced.restore(tmp_path / "free")
    # The error starts in the middle of its range: 10 inserts go, the 11th waits.
    writer = paced.writer()
    play(writer, episode(2 * 10))
    writer.flush(10)
    writer.append(episode(8)[0])
    for step in episode(8)[1:]:
        writer.append(step)
    with pytest.raises(ReplayTimeout):
        writer.flush(0.3)
    paced.sample(8, 10)
    writer.flush(10)
    writer.close()

    paced.checkpoint(tmp_path / "paced")
    back = case.open(FREE)
    back.restore(tmp_path / "paced")
    writer = back.writer()
    play(writer, episode(2 * 30))
    writer.flush(10)


def test_a_checkpoint_of_other_sizes_is_refused(case, tmp_path):
    replay = case.open(FREE)
    replay.checkpoint(tmp_path / "c")
    manifest = tmp_path / "c" / "replay.json"
    text = manifest.read_text()
    for name, change in (
        (r"config\.capacity is 65 there and 64 here", ('"capacity": 64', '"capacity": 65')),
        (r"spec\.td_steps is 4 there and 3 here", ('"td_steps": 3', '"td_steps": 4')),
        (r"version is 2, this program reads 1", ('"version": 1', '"version": 2')),
        (r"kind is 'other'", ('"kind": "', '"kind": "other", "was": "')),
    ):
        manifest.write_text(text.replace(*change))
        with pytest.raises(UserError, match=name):
            replay.restore(tmp_path / "c")


def test_a_checkpoint_never_overwrites(case, tmp_path):
    replay = case.open(FREE)
    replay.checkpoint(tmp_path / "c")
    with pytest.raises(UserError, match="is there already"):
        replay.checkpoint(tmp_path / "c")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_damaged_checkpoint_is_refused(case, tmp_path):
    replay = case.open(FREE)
    writer = replay.writer()
    play(writer, episode(30))
    writer.flush(10)
    replay.checkpoint(tmp_path / "c")
    largest = max(
        (path for path in (tmp_path / "c").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
    )
    whole = largest.read_bytes()
    largest.write_bytes(whole[:-1])
    with pytest.raises(FormatError, match=f"{largest.name}: differs from the hash"):
        replay.restore(tmp_path / "c")
    largest.unlink()
    with pytest.raises(FormatError, match=f"{largest.name}: cannot be read"):
        replay.restore(tmp_path / "c")
    (tmp_path / "c" / "replay.json").write_text("{}")
    with pytest.raises(FormatError, match=r"replay\.json: not a replay checkpoint's manifest"):
        replay.restore(tmp_path / "c")
    with pytest.raises(FormatError, match="not a whole replay checkpoint"):
        replay.restore(tmp_path / "nowhere")
    # Refused, not half done.
    assert replay.stats().size == 15


@needs_reverb
def test_a_client_of_other_settings_is_refused(reverb_case):
    address = reverb_case.open(FREE)._address
    with pytest.raises(UserError, match=r"samples_per_insert is 1\.0 there and 2\.0 here"):
        ReverbReplay(address, dataclasses.replace(FREE, samples_per_insert=2.0), SPEC)
    with pytest.raises(UserError, match=r"observation is .* use the segment spec"):
        ReverbReplay(address, FREE, dataclasses.replace(SPEC, observation_size=5))
    with pytest.raises(UserError, match="only the process that started it can restore"):
        ReverbReplay(address, FREE, SPEC).restore("anywhere")
    reverb_case.end_test()
