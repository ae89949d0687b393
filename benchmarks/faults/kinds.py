"""Kinds of faults that are injected into a training run, by name."""

import contextlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from .run import ACTORS, Run

_PAUSE_S = 10.0
_FULL_S = 20.0

ACTOR, LEARNER, EVALUATOR = "ray::ActorWorker", "ray::LearnerWorker", "ray::EvaluatorWorker"
REPLAY, RAYLET = "reverb.server_process", "raylet/raylet"


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    Attributes:
      what: its description on the page.
      do: injects the fault into a run, and undoes it if it does not last.
      needs: words, one of which the log or terminal must mention.
    """

    what: str
    do: Callable[[Run, random.Random], None]
    needs: tuple[str, ...]


def _kill(text: str, count: int = 1) -> Callable[[Run, random.Random], None]:
    def do(run: Run, generator: random.Random) -> None:
        found = run.processes(text)
        for process in generator.sample(found, min(count, len(found))):
            process.kill()

    return do


def _kill_driver(run: Run, generator: random.Random) -> None:
    run.driver.kill()


def _stop_for_ever(run: Run, generator: random.Random) -> None:
    generator.choice(run.processes(ACTOR)).send_signal(signal.SIGSTOP)


def _stop_for_a_while(run: Run, generator: random.Random) -> None:
    process = generator.choice(run.processes(ACTOR))
    process.send_signal(signal.SIGSTOP)
    time.sleep(_PAUSE_S)
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGCONT)


def _fill_disk(run: Run, generator: random.Random) -> None:
    """Fills the file system of the run directory, a small one of its own, to the last byte."""
    filler = run.path.parent / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(2**16))
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0")
        _while_alive(run, _FULL_S)
    finally:
        filler.unlink()


def _fill_store(run: Run, generator: random.Random) -> None:
    """Fills Ray's object store from another driver of the same cluster."""
    raylets = run.processes(RAYLET)
    address = next(word.partition("=")[2] for word in raylets[0].cmdline() if word.startswith("--gcs-address="))
    # The environment of the raylet: for this machine alone, and with the token of the cluster if it has one.
    environment = raylets[0].environ()
    subprocess.run([sys.executable, "-c", _HOLD, address, str(_FULL_S)], check=True, env=environment, timeout=200.0)


_HOLD = """
import sys, time, numpy, ray
ray.init(address=sys.argv[1], namespace="fault", log_to_driver=False, logging_level="ERROR")
capacity = int(ray.cluster_resources()["object_store_memory"])
held = [ray.put(numpy.zeros(10 * 2**20, numpy.uint8)) for _ in range(capacity // (10 * 2**20) + 2)]
time.sleep(float(sys.argv[2]))
"""


def _while_alive(run: Run, seconds: float) -> None:
    end = time.monotonic() + seconds
    while run.alive and time.monotonic() < end:
        time.sleep(0.2)


FAULTS = {
    "actor": Fault("kill -9 of an actor", _kill(ACTOR), ("actor", "died")),
    "actors": Fault(f"kill -9 of all {ACTORS} actors at once", _kill(ACTOR, ACTORS), ("actor", "died")),
    "evaluator": Fault("kill -9 of the evaluator", _kill(EVALUATOR), ("evaluator", "died")),
    "replay": Fault("kill -9 of the replay server", _kill(REPLAY), ("replay server",)),
    "learner": Fault("kill -9 of the learner", _kill(LEARNER), ("learner",)),
    "raylet": Fault("kill -9 of the raylet, Ray's server on the node", _kill(RAYLET), ("raylet", "Ray")),
    "driver": Fault("kill -9 of the driver, which the user started", _kill_driver, ("going on from",)),
    "paused": Fault(f"SIGSTOP of an actor, SIGCONT after {_PAUSE_S:.0f} s", _stop_for_a_while, ()),
    "stopped": Fault("SIGSTOP of an actor for ever", _stop_for_ever, ("has not answered",)),
    "store": Fault(f"Ray's object store is full for {_FULL_S:.0f} s", _fill_store, ()),
    "disk": Fault(f"the run directory's disk is full for {_FULL_S:.0f} s", _fill_disk, ("No space left", "no space")),
}
