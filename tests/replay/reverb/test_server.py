"""The life of a replay server, and what its clients see when it ends."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from installed import REVERB
from replay_cases import FREE, SPEC, contents, episode, expected, play

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.replay.interface import ReplayTimeout
from mallocmuzero.replay.reverb import client
from mallocmuzero.replay.reverb import priorities as reverb_updater
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.server import ReplayServer

needs_reverb = pytest.mark.skipif(not REVERB, reason="Reverb is not installed")
CASES = Path(__file__).parents[2] / "cases"


def python(*arguments, **keywords):
    """A Python process that finds the modules of this folder."""
    environment = {**os.environ, "PYTHONPATH": str(CASES), **keywords.pop("env", {})}
    return subprocess.Popen([sys.executable, *arguments], env=environment, **keywords)


def gone(pid, within_s=20):
    """Waits until no process has this id."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError):
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z":
                time.sleep(0.1)
                continue
        return True
    return False


def ends(server, within_s=20):
    """Waits until the server knows that its process is dead: a killed one is a zombie before its threads are gone."""
    deadline = time.monotonic() + within_s
    while server.alive and time.monotonic() < deadline:
        time.sleep(0.1)
    return not server.alive


def _cut_off(*_):
    raise RuntimeError("Connection reset by peer")


@needs_reverb
def test_actors_a_learner_and_a_server_that_is_killed(tmp_path, monkeypatch):
    """Two writer processes, sampling, priorities, checkpoint, kill -9, restore in a new server, insert, sample."""
    episodes = [episode(SPEC.period * 12, seed) for seed in (1, 2)]
    with ReplayServer(FREE, SPEC) as server:
        actors = [python(str(CASES / "replay_actor.py"), server.address, str(seed), "12") for seed in (1, 2)]
        replay = ReverbReplay(server.address, FREE, SPEC)
        assert [actor.wait(60) for actor in actors] == [0, 0]
        assert replay.stats().size == 24
        batch = replay.sample(16, 10)
        assert set(contents(batch)) <= expected(*episodes)
        replay.update_priorities(batch.key, np.full(16, 3.0))
        replay.checkpoint(tmp_path / "replay")
        before = replay.stats()

        # It may die while it is asked.
        with monkeypatch.context() as patch:
            patch.setattr("reverb.Client.server_info", _cut_off)
            with pytest.raises(ReplayTimeout, match="did not answer: Connection reset by peer"):
                replay.stats()

        monkeypatch.setattr(client, "_INFO_TIMEOUT_S", 1)
        monkeypatch.setattr(client, "_CLOSE_TIMEOUT_S", 1)
        os.kill(server.pid, signal.SIGKILL)
        assert ends(server)
        assert server.end == "signal 9"
        # Nothing hangs: waits end, and say that the server is gone.
        writer = replay.writer()
        play(writer, episode(3))
        with pytest.raises(ReplayTimeout):
            writer.flush(0.3)
        for _ in range(8):  # Batches fetched ahead are still there.
            try:
                replay.sample(16, 0.3)
            except ReplayTimeout as error:
                assert "did not answer" in str(error)  # noqa: PT017  (the loop ends with the first)
                break
        else:
            pytest.fail("a server that is gone went on delivering")
        writer.close()
        replay.close()

    monkeypatch.undo()
    with ReplayServer(FREE, SPEC, restore_from=tmp_path / "replay") as server:
        replay = ReverbReplay(server.address, FREE, SPEC)
        after = replay.stats()
        assert (after.size, after.inserts) == (24, 24)
        assert 16 <= after.samples <= before.samples
        writer = replay.writer()
        play(writer, new := episode(20, seed=3))
        writer.flush(10)
        writer.close()
        drawn = [replay.sample(16, 10) for _ in range(20)]
        assert {content for batch in drawn for content in contents(batch)} == expected(*episodes, new)
        chance = dict(
            zip(np.concatenate([b.key for b in drawn]), np.concatenate([b.probability for b in drawn]), strict=True)
        )
        raised = [chance[key] for key in batch.key if key in chance]
        np.testing.assert_allclose(raised, max(chance.values()))
        assert min(chance.values()) < 0.6 * max(chance.values())
        replay.close()
    assert not server.alive


@needs_reverb
def test_a_server_that_cannot_write_tells_why_and_leaves_nothing(tmp_path, monkeypatch):
    error = IndexError("/scratch/chunks.tfrecord; No space left on device")
    with ReplayServer(FREE, SPEC) as server:
        checkpoints = server._scratch / "checkpoints"

        def fails(_):
            (checkpoints / "half").mkdir()
            (checkpoints / "half" / "chunks.tfrecord").write_bytes(b"half")
            raise error

        replay = ReverbReplay(server.address, FREE, SPEC, server=server)
        with monkeypatch.context() as patch:
            patch.setattr("reverb.Client.checkpoint", fails)
            with pytest.raises(UserError, match=r"chunks\.tfrecord; No space left on device\); free space") as caught:
                replay.checkpoint(tmp_path / "replay")
            assert isinstance(caught.value.__cause__, OSError)  # so the run goes on
            assert list(checkpoints.iterdir()) == []
            error = RuntimeError("Input/output error")
            with pytest.raises(UserError, match=r"cannot write its checkpoint \(Input/output error\)"):
                replay.checkpoint(tmp_path / "replay")
            error = ValueError("no checkpointer")  # a defect, not a disk
            with pytest.raises(ValueError, match="no checkpointer"):
                replay.checkpoint(tmp_path / "replay")
            assert list(checkpoints.iterdir()) == []
        assert list(tmp_path.iterdir()) == []
        replay.checkpoint(tmp_path / "replay")
        replay.close()


@needs_reverb
def test_the_server_ends_with_its_parent(tmp_path):
    program = textwrap.dedent("""
        import os, signal, sys, time
        from replay_cases import FREE, SPEC
        from mallocmuzero.replay.reverb.server import ReplayServer
        server = ReplayServer(FREE, SPEC)
        print(server.pid, server._scratch, flush=True)
        # Ctrl-C in a terminal reaches the whole process group. The server must outlive it, to be saved.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.killpg(0, signal.SIGINT)
        time.sleep(0.5)
        print(server.alive, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    parent = python(
        "-c", program, stdout=subprocess.PIPE, text=True, start_new_session=True, env={"TMPDIR": str(tmp_path)}
    )
    assert parent.stdout is not None
    with parent.stdout as lines:
        pid = int(lines.readline().split()[0])
        assert lines.readline() == "True\n"
    parent.wait(10)
    assert gone(pid)


@needs_reverb
def test_a_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} cannot be used"):
            ReplayServer(FREE, SPEC, port=port)


@needs_reverb
def test_a_wrong_address_is_told(monkeypatch):
    monkeypatch.setattr(client, "_INFO_TIMEOUT_S", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match="is the address right and the server running"):
            ReverbReplay(address, FREE, SPEC)


def test_a_checkpoint_that_is_none_stops_the_start(tmp_path):
    with pytest.raises(FormatError, match="not a whole replay checkpoint"):
        ReplayServer(FREE, SPEC, restore_from=tmp_path)


@pytest.mark.parametrize("missing", ["reverb", "tensorflow"])
def test_a_missing_reverb_is_told_by_name(missing, monkeypatch):
    for name in ("reverb", missing):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UserError, match=r"Python 3\.11 and `pip install mallocmuzero\[cluster\]`"):
        ReverbReplay("localhost:1", FREE, SPEC)


def test_the_package_imports_without_reverb():
    program = (
        "import sys; import mallocmuzero.replay.reverb.sharded, mallocmuzero.replay.local.replay; "
        "sys.exit(any(name in sys.modules for name in ('reverb', 'tensorflow', 'jax', 'ray')))"
    )
    assert python("-c", program).wait(30) == 0


@pytest.mark.parametrize("most", [6])
def test_priorities_that_a_server_does_not_take_are_bounded(monkeypatch, most):
    monkeypatch.setattr(reverb_updater, "MOST_PENDING", most)
    sent, goes_on, busy = [], threading.Event(), threading.Event()

    class Client:
        def mutate_priorities(self, table, updates):
            busy.set()
            goes_on.wait(20)
            sent.append(updates)

    updater = reverb_updater.PriorityUpdater(Client())
    updater.put(np.array([99]), np.array([1.0]))
    assert busy.wait(20)
    for start in range(0, 12, 4):
        updater.put(np.arange(start, start + 4), np.full(4, float(start)))
    updater.put(np.array([8]), np.array([7.0]))
    goes_on.set()
    assert updater.close(20)
    assert sent == [{99: 1.0}, {6: 4.0, 7: 4.0, 8: 7.0, 9: 8.0, 10: 8.0, 11: 8.0}]


def test_a_flush_after_a_failure_does_not_say_that_all_is_sent():
    class Client:
        def mutate_priorities(self, table, updates):
            raise error

    for error in (RuntimeError("the server is gone"), IndexError("the server is full")):
        updater = reverb_updater.PriorityUpdater(Client())
        updater.put(np.array([1]), np.array([1.0]))
        with pytest.raises(RuntimeError, match=f"updating priorities failed: {error}"):
            updater.flush(20)
        with pytest.raises(RuntimeError, match=f"updating priorities failed: {error}"):
            updater.put(np.array([2]), np.array([1.0]))
        assert not updater.close(20)
