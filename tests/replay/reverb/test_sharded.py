"""Several Reverb servers as one replay."""

import dataclasses
import os
import signal

import numpy as np
import pytest
from installed import REVERB
from replay_cases import FREE, PACED, SPEC, contents, episode, expected, play

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.servers import ReplayServers
from mallocmuzero.replay.reverb.sharded import ShardedReplay, open_replay

needs_reverb = pytest.mark.skipif(not REVERB, reason="Reverb is not installed")
TWO = dataclasses.replace(FREE, servers=2, min_size=2)
PACED_TWO = dataclasses.replace(PACED, servers=2, error_buffer=40.0)


def test_a_server_has_its_share() -> None:
    share = PACED_TWO.share()
    assert (share.servers, share.capacity, share.min_size, share.error_buffer) == (1, 32, 2, 20.0)
    assert share.samples_per_insert == PACED_TWO.samples_per_insert
    assert FREE.share() == FREE
    with pytest.raises(UserError, match="servers is 5; it must be between 1 and min_size = 4"):
        dataclasses.replace(PACED, servers=5)
    with pytest.raises(UserError, match=r"of 2 servers, each has a share that cannot be: .*error_buffer"):
        ReplayConfig(capacity=40, min_size=4, samples_per_insert=4.0, error_buffer=6.0, servers=2)
    with pytest.raises(UserError, match=r"2 servers \* \(samples_per_insert \+ batch size\) / 2 = 42"):
        PACED_TWO.check_batch(40)
    overrides = Overrides()
    overrides.add({"workloads": ["tiny"], "replay": {"servers": 2}}, "--set")
    with pytest.raises(UserError, match=r"replay\.servers is 2, but the topology is 'process'"):
        overrides.resolve()


@needs_reverb
def test_actors_write_to_their_server_and_the_learner_samples_all(tmp_path) -> None:
    with ReplayServers(TWO, SPEC) as servers:
        assert servers.address_of(3) == servers.addresses[1]
        replay = open_replay(servers.addresses, TWO, SPEC, servers=servers.each)
        assert isinstance(replay, ShardedReplay)
        episodes = [episode(2 * 8, seed) for seed in (1, 2)]
        for actor, steps in enumerate(episodes):
            actors_replay = ReverbReplay(servers.address_of(actor), TWO.share(), SPEC)
            writer = actors_replay.writer()
            play(writer, steps)
            writer.flush(10)
            assert actors_replay.stats().size == 8
            writer.close()
            actors_replay.close()
        assert (replay.stats().size, replay.stats().inserts) == (16, 16)

        drawn: dict[float, int] = {}
        seen = set()
        # Whichever server has a batch ready is drawn from: on a busy machine one may be slower for a while.
        for draws in range(400):
            if draws >= 40 and min(drawn.get(1.0, 0), drawn.get(2.0, 0)) >= 10:
                break
            batch = replay.sample(4, 10)
            (actor,) = set(batch.observation[:, 0, 0].tolist())  # A batch is of one server, which has one actor.
            drawn[actor] = drawn.get(actor, 0) + 1
            assert batch.table_size == 8
            seen |= set(contents(batch))
        assert seen <= expected(*episodes)
        assert min(drawn[1.0], drawn[2.0]) >= 10
        assert replay.stats().samples >= 160

        # Priorities reach the server that a key is of, also when they come for two batches at once.
        batches: dict[float, tuple[np.ndarray, float]] = {}
        while len(batches) < 2:
            batch = replay.sample(4, 10)
            batches[float(batch.observation[0, 0, 0])] = (batch.key[:1], float(batch.observation[0, 0, 1]))
        keys = np.concatenate([keys for keys, _ in batches.values()])
        replay.update_priorities(keys, np.full(2, 1e12))  # To the power of 0.5: one draw in 140,000 is another
        replay.flush_priorities(10)
        late: dict[float, list[np.ndarray]] = {1.0: [], 2.0: []}
        while min(map(len, late.values())) < 20:
            batch = replay.sample(4, 10)
            late[float(batch.observation[0, 0, 0])].append(batch.observation[:, 0, 1])
        for actor, (_, step) in batches.items():
            assert (np.concatenate(late[actor][-5:]) == step).mean() > 0.9  # the first few were fetched before

        replay.checkpoint(tmp_path / "replay")
        assert sorted(path.name for path in (tmp_path / "replay").iterdir()) == ["server_0", "server_1"]
        before = replay.stats()
        writer = replay.writer()
        play(writer, episode(2 * 4, 7))
        writer.flush(10)
        replay.restore(tmp_path / "replay")
        assert (replay.stats().size, replay.stats().inserts) == (16, before.inserts)
        assert set(contents(replay.sample(4, 10))) <= expected(*episodes)
        replay.close()

        replay = open_replay(servers.addresses, TWO, SPEC)
        assert (replay.stats().size, replay.stats().inserts) == (16, 16)
        with pytest.raises(UserError, match="only the process that started it can restore"):
            replay.restore(tmp_path / "replay")
        assert servers.alive
        os.kill(servers.each[1].pid, signal.SIGKILL)
        servers.each[1]._process.wait(20)
        assert not servers.alive
        replay.close()
    (tmp_path / "replay" / "server_1" / "replay.json").unlink()
    with pytest.raises(FormatError, match=r"server_1.*replay\.json"):
        ReplayServers(TWO, SPEC, restore_from=tmp_path / "replay")


@needs_reverb
def test_each_server_paces_its_actors_and_none_waits_for_the_other() -> None:
    """One actor only: the learner goes on with its server alone, and the other server holds nobody."""
    with ReplayServers(PACED_TWO, SPEC) as servers:
        replay = open_replay(servers.addresses, PACED_TWO, SPEC)
        with pytest.raises(ReplayTimeout, match=r"server 0: .*0 segments.*server 1: .*0 segments"):
            replay.sample(4, 0.3)
        actor = ReverbReplay(servers.address_of(1), PACED_TWO.share(), SPEC)
        writer = actor.writer()
        steps = episode(2 * 60, 1)
        with pytest.raises(ReplayTimeout):  # Nobody samples: held after its share of the buffer.
            play(writer, steps)
        held = actor.stats()
        assert held.inserts * 2 - held.samples <= PACED_TWO.share().error_range[1]
        first = replay.sample(4, 10)
        assert set(first.observation[:, 0, 0].tolist()) == {1.0}
        for _ in range(5):
            replay.sample(4, 10)
        writer.append(steps[-1])  # There is room again.
        assert replay.stats().sample_blocked_s > 0.25
        writer.close()
        actor.close()
        replay.close()
