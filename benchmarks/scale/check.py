"""Trains with light actors and a light learner around the real driver and replay; prints a line of JSON.

    python -m benchmarks.scale.check --actors 8 --moves-per-s 300 --updates-per-s 100 --seconds 20 --steps FILE

Called by `measure.py`. Figures are of the seconds after every actor has reported once.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from mallocmuzero.launch.config.overrides import Overrides
from mallocmuzero.launch.ray import fleet
from mallocmuzero.launch.ray.driver import Driver
from mallocmuzero.launch.ray.workers import Played
from mallocmuzero.launch.train.experiment import run_experiment

from . import light_workers


class Watch:
    """Observer inside the driver: figures of `seconds` of the run, from the time when all actors play."""

    def __init__(self, actors: int, seconds: float) -> None:
        self._actors, self._seconds = actors, seconds
        self._reported: set[int] = set()
        self._begin: dict[str, float] | None = None
        self._calls = 0
        self.result: dict[str, float] = {}

    def played(self, driver: Any, index: int) -> None:
        """Takes note of a report of an actor."""
        self._reported.add(index)
        self._calls += 1
        if len(self._reported) < self._actors or self.result:
            return
        now = self._now(driver)
        if self._begin is None:
            self._begin = now
        elif now["seconds"] - self._begin["seconds"] >= self._seconds:
            since = {name: now[name] - self._begin[name] for name in now}
            self.result = {
                "moves_per_s": since["moves"] / since["seconds"],
                "updates_per_s": since["step"] / since["seconds"],
                "call_s": since["driver_s"] / since["calls"],
                "driver_share": since["driver_s"] / since["seconds"],
                "server_share": since["server_s"] / since["seconds"],
                "turn_share": since["turn_s"] / since["seconds"] / self._actors,
                "held_share": since["held_s"] / since["seconds"] / self._actors,
                "machine_busy": since["busy_s"] / (since["busy_s"] + since["idle_s"]),
            }
            driver.session.stop.signal = signal.SIGINT

    def _now(self, driver: Any) -> dict[str, float]:
        counters, machine = driver.session.counters, psutil.cpu_times()
        servers = [psutil.Process(server.pid).cpu_times() for server in driver.replay.servers.each]
        return {
            "seconds": time.monotonic(),
            "moves": counters.moves,
            "step": counters.step,
            "calls": self._calls,
            "driver_s": time.process_time(),
            "server_s": sum(times.user + times.system for times in servers),
            "turn_s": counters.blocked_s.get("actors_turn", 0.0),
            "held_s": counters.blocked_s["actors"],
            "busy_s": machine.user + machine.system + machine.nice,
            "idle_s": machine.idle,
        }


def main() -> int:
    """Runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actors", type=int, required=True)
    parser.add_argument("--moves-per-s", type=float, required=True, help="of each actor")
    parser.add_argument("--updates-per-s", type=float, required=True, help="of the learner")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--steps", required=True, help="recorded steps")
    parser.add_argument("--servers", type=int, default=1)
    arguments = parser.parse_args()
    os.environ |= {
        light_workers.STEPS_FILE: arguments.steps,
        light_workers.MOVES_PER_S: str(arguments.moves_per_s),
        light_workers.UPDATES_PER_S: str(arguments.updates_per_s),
        "RAY_worker_niceness": "0",
        # Ray's workers import `benchmarks` from there.
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(":"),
    }
    watch = Watch(arguments.actors, arguments.seconds)
    played = Driver.played

    def watched(driver: Driver, index: int, report: Played) -> None:
        played(driver, index, report)
        watch.played(driver, index)

    Driver.played = watched  # type: ignore[method-assign]
    fleet.ActorWorker = light_workers.LightActor  # type: ignore[misc]
    fleet.LearnerWorker = light_workers.LightLearner  # type: ignore[misc]
    overrides = Overrides()
    settings = {
        "workloads": ["tiny"],
        "topology": "ray",
        "actors": arguments.actors,
        "replay": {"capacity": 20_000, "servers": arguments.servers},
        "schedule": {"evaluate_period": 0, "checkpoint_minutes": 60.0},
        "ray": {"actor_cpus": 0.05},
        "actor": {"decisions": "access"},  # which light_workers.py writes steps of
    }
    overrides.add(settings, "benchmarks.scale.check")
    with tempfile.TemporaryDirectory() as folder:
        run_experiment(Path(folder) / "run", overrides, resume=False)
    if not watch.result:
        return 1
    print(json.dumps(watch.result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
