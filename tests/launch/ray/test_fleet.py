"""The fleet and its workers, with a stand-in for Ray: some find no room, and replacements have their own seeds."""

from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import pytest

from mallocmuzero.launch.config.config import RAY, TrainConfig
from mallocmuzero.launch.config.ray import ACTOR, RayConfig
from mallocmuzero.launch.ray import calls as ray_calls
from mallocmuzero.launch.ray import fleet as ray_fleet
from mallocmuzero.launch.ray import processes as ray_processes
from mallocmuzero.launch.ray.fleet import Fleet


class RayError(Exception):
    """Ray's error."""


class Method:
    """A method of a worker: notes its calls, each of which is its own reference."""

    def __init__(self, worker: "Worker", name: str) -> None:
        self._worker, self._name = worker, name

    def remote(self, *arguments: Any) -> tuple[Any, ...]:
        """Notes a call."""
        call = (self._worker, self._name, len(self._worker.calls))
        self._worker.calls.append((self._name, arguments))
        return call


class Worker:
    """A handle of a worker."""

    def __init__(self) -> None:
        self.placed, self.killed = False, False
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __getattr__(self, name: str) -> Method:
        return Method(self, name)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of the calls of one method."""
        return [arguments for called, arguments in self.calls if called == name]


class Ray:
    """As much of Ray as a fleet uses: workers answer who they are once they are placed, and nothing else."""

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(self) -> None:
        self.workers: list[Worker] = []

    def remote(self, worker: type) -> SimpleNamespace:
        """Returns a class whose instances are workers."""

        def start(*arguments: Any) -> Worker:
            self.workers.append(Worker())
            return self.workers[-1]

        made = SimpleNamespace(remote=start)
        return SimpleNamespace(options=lambda **options: made)

    def wait(self, calls: list[Any], num_returns: int = 1, timeout: float | None = None) -> tuple[list[Any], list[Any]]:
        """Returns the calls that are answered, and the others."""
        assert calls
        ready = [call for call in calls if call[0].placed and call[1] == "__ray_call__"]
        return ready, [call for call in calls if call not in ready]

    def get(self, call: Any, timeout: float | None = None) -> Any:
        """Nothing is asked for but processes, which are gone."""
        raise RayError

    def kill(self, worker: Worker) -> None:
        """Notes the end of a worker."""
        worker.killed = True


def fleet_of(monkeypatch: pytest.MonkeyPatch, actors: int) -> tuple[Fleet, Ray, list[str]]:
    """Returns a fleet of which all actors begin, its Ray, and what is said."""
    ray, said = Ray(), list[str]()
    for module in (ray_fleet, ray_processes):
        monkeypatch.setattr(module, "import_ray", lambda: ray)
    monkeypatch.setattr(ray_fleet, "result_of", lambda *_: None)
    config = TrainConfig(workloads=("tiny",), topology=RAY, actors=actors, ray=RayConfig())
    session: Any = SimpleNamespace(config=config, resumed=None, programs=[], say=said.append)
    fleet = Fleet(session, ExitStack())
    servers: Any = SimpleNamespace(addresses=["here"], address_of=lambda index: "here")
    state: Any = None
    fleet.begin(servers, state)
    return fleet, ray, said


def test_an_actor_that_ray_has_no_room_for_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(ray_calls.time, "monotonic", lambda: now)
    fleet, ray, said = fleet_of(monkeypatch, 2)
    _, hangs, waits, *_ = ray.workers
    hangs.placed = True
    for _ in range(10):
        now += 300
        fleet.end_slow_workers()
    assert (hangs.killed, waits.killed) == (True, False)
    assert said.pop() == "actor 0 has not answered for 600 s; ending it"
    assert [line.partition(":")[0] for line in said] == [
        "actor 1 has not started for 300 s",
        "evaluator 0 has not started for 300 s",
    ]
    # A node joins: now the actor has the usual time.
    waits.placed = True
    now += 500
    fleet.end_slow_workers()
    assert not waits.killed
    now += 601
    fleet.end_slow_workers()
    assert waits.killed


def test_the_end_of_a_run_does_not_wait_for_an_actor_without_room(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, ray, _ = fleet_of(monkeypatch, 2)
    _, plays, waits, *_ = ray.workers
    fleet.close_actors(0.0)
    plays.placed = True
    fleet.calls.drop_absent()
    assert [call.index for call in fleet.calls if call.role == ACTOR] == [0]
    fleet.close_actors(0.0)
    assert (len(plays.named("close")), len(waits.named("close"))) == (1, 0)


def test_replacements_have_seeds_of_their_own_though_the_number_of_actors_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds = []
    for actors in (2, 4):
        fleet, ray, _ = fleet_of(monkeypatch, actors)
        for index in range(actors):
            fleet.replace(ACTOR, index)
        begun = [arguments for worker in ray.workers for arguments in worker.named("begin") if len(arguments) == 5]
        seeds.append([seed for _, _, _, seed, _ in begun])
    two, four = seeds
    assert (len(set(two)), len(set(four))) == (4, 8)
    assert set(two[2:]).isdisjoint(four[:4])
