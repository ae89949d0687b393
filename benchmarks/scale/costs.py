"""Costs of the parts of a run, measured one after the other on this machine: the numbers of `model.py`."""

import os
import re
import subprocess
import time
import warnings
from typing import Any

import jax
import numpy as np
import psutil

from mallocmuzero.actors.self_play.actor import SelfPlayActor
from mallocmuzero.env import workloads
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.session.builders import initial_state, make_training_update
from mallocmuzero.learner.networks.network import Network
from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.reverb.client import ReverbReplay
from mallocmuzero.replay.reverb.server import ReplayServer
from mallocmuzero.replay.segment import Batch, Step

from .light_workers import save_steps

_SEGMENTS = 2000
# The replay server is started by fork and exec at once, which is safe beside JAX.
warnings.filterwarnings("ignore", r"os\.fork\(\)", RuntimeWarning)


class _Recorder:
    """A writer that keeps the steps of whole games and writes nothing."""

    def __init__(self, steps: list[Step]) -> None:
        self._steps, self._mine = steps, list[Step]()

    def append(self, step: Step) -> None:
        self._mine.append(step)

    def end_episode(self, cut: bool = False) -> None:
        if not cut:  # whole games only
            self._steps += self._mine
        self._mine = []

    def flush(self, timeout_s: float) -> None:
        """Does nothing: no step waits."""

    def close(self) -> None:
        """Does nothing: no connection is open."""


def actor_costs(config: TrainConfig, seconds: float, steps_file: str) -> dict[str, float]:
    """Returns processor seconds per move of a real actor, and records its steps in a file."""
    programs = [workloads.load(name) for name in config.workloads]
    network, steps = Network(config.network), list[Step]()
    actor = SelfPlayActor(
        programs,
        network,
        config.search,
        config.actor,
        [_Recorder(steps) for _ in range(config.actor.games)],  # type: ignore[misc]
        0,
        config.segment_spec.length,
    )
    actor.set_parameters(network.init(jax.random.PRNGKey(0)), 0)
    actor.play(config.schedule.slice_moves)  # compiles
    begin, moves = time.process_time(), 0
    while time.process_time() - begin < seconds or len(steps) < 500:
        moves += actor.play(config.schedule.slice_moves).moves
    save_steps(steps_file, steps[:4000])
    return {"move_s": (time.process_time() - begin) / moves}


def learner_costs(config: TrainConfig, seconds: float) -> dict[str, float]:
    """Returns processor seconds per update, and the bytes of the parameters."""
    network = Network(config.network)
    state, update = initial_state(config, network), make_training_update(config, network)
    size, spec = config.learner.batch_size, config.segment_spec
    fields = {name: np.zeros((size, spec.length, *shape), dtype) for name, (shape, dtype) in spec.fields.items()}
    fields["legal"][:], fields["valid"][:] = True, True
    fields["policy"][:] = 1 / spec.num_actions
    fields["discount"][:] = 1.0
    one = np.ones(size)
    batch = Batch(**fields, key=np.arange(size, dtype=np.uint64), probability=one / size, table_size=size)
    state, _, priorities = update(state, batch)
    jax.block_until_ready(priorities)
    begin, updates = time.process_time(), 0
    while time.process_time() - begin < seconds:
        state, _, priorities = update(state, batch)
        np.asarray(priorities)
        updates += 1
    leaves = jax.tree.leaves(jax.device_get(state.params))
    return {
        "update_s": (time.process_time() - begin) / updates,
        "parameter_bytes": float(sum(leaf.nbytes for leaf in leaves)),
    }


def replay_costs(config: TrainConfig, steps: list[Step]) -> dict[str, float]:
    """Returns processor seconds of server and client, and bytes on the wire, per segment written and drawn."""
    free = ReplayConfig(capacity=config.replay.capacity, min_size=1, samples_per_insert=1.0, error_buffer=1e9)
    spec, size = config.segment_spec, config.learner.batch_size
    costs: dict[str, float] = {}
    with ReplayServer(free, spec) as server:
        replay = ReverbReplay(server.address, free, spec)
        process, port = psutil.Process(server.pid), int(server.address.rsplit(":", 1)[1])

        def measure(name: str, work: Any) -> None:
            before_server, before_client, bytes_before = _cpu_s(process), time.process_time(), _bytes_of(port)
            count = work()
            time.sleep(0.5)  # for segments under way
            costs[f"{name}_server_s"] = (_cpu_s(process) - before_server) / count
            costs[f"{name}_client_s"] = (time.process_time() - before_client) / count
            costs[f"{name}_bytes"] = (_bytes_of(port) - bytes_before) / count

        writers = [replay.writer() for _ in range(config.actor.games)]

        def write() -> int:
            before = replay.stats().inserts
            index = 0
            while index * len(writers) / config.segment_period < _SEGMENTS:
                step = steps[index % len(steps)]
                for writer in writers:
                    writer.append(step)
                    if step.discount == 0:
                        writer.end_episode()
                index += 1
            for writer in writers:
                writer.flush(60)
            return replay.stats().inserts - before

        def draw() -> int:
            before = replay.stats().samples
            for _ in range(-(-_SEGMENTS // size)):
                batch = replay.sample(size, 60)
                replay.update_priorities(batch.key, np.ones(size))
            replay.flush_priorities(30)
            return replay.stats().samples - before

        write()  # the first connections and allocations
        draw()
        measure("insert", write)
        measure("sample", draw)
        for writer in writers:
            writer.close()
        replay.close()
    return costs


def broadcast_costs(params_bytes: float) -> dict[str, float]:
    """Returns seconds from `ray.put` of parameters to their arrival in another process of this machine."""
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")

    def get(reference: list[Any]) -> int:
        return int(ray.get(reference[0]).nbytes)

    task, seconds = ray.remote(get), []
    for index in range(12):
        values = np.full(int(params_bytes // 4), index, np.float32)
        begin = time.perf_counter()
        ray.get(task.remote([ray.put(values)]))
        seconds.append(time.perf_counter() - begin)
    ray.shutdown()
    return {"broadcast_s": float(np.median(seconds[2:]))}


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _bytes_of(port: int) -> float:
    """Returns bytes carried both ways by the connections of a port, counted by the kernel; NaN without `ss`."""
    said = subprocess.run(
        ["ss", "-Htin", "state", "established", f"( sport = :{port} )"],
        capture_output=True,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    if said.returncode:
        return float("nan")
    return float(sum(map(int, re.findall(r"bytes_(?:received|sent):(\d+)", said.stdout))))
