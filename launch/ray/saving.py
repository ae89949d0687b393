"""Checkpoints of a Ray run, written on a thread of the driver while actors and learner go on."""

import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...learner.checkpoints.checkpoint import Checkpoints
from ...learner.networks.network import Network
from ...learner.state import TrainingState
from ..run.checkpoints import ACTORS, LEARNER, REPLAY, RunCheckpoints
from ..session.snapshot import Snapshot, write_actor_states

# Writes the replay's content into a new folder.
SaveReplay = Callable[[Path], None]


class Saving:
    """Writes one checkpoint on its own thread; takes the arguments of `write_checkpoint`."""

    def __init__(self, checkpoints: RunCheckpoints, **parts: Any) -> None:
        self._error: BaseException | None = None
        self._checkpoints, self._parts = checkpoints, parts
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Waits for the checkpoint to be written or to fail; returns whether either happened in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raises the error of `write_checkpoint`, if there was one."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            write_checkpoint(self._checkpoints, **self._parts)
        except BaseException as error:  # noqa: BLE001  (the driver raises it)
            self._error = error


def write_checkpoint(
    checkpoints: RunCheckpoints,
    *,
    network: Network,
    state: TrainingState,
    actors: Sequence[Mapping[str, Any]],
    snapshot: Snapshot,
    replay: SaveReplay,
) -> None:
    """Writes a checkpoint.

    Args:
      checkpoints: the run's checkpoints.
      network: the network of `state`.
      state: the training state, as NumPy arrays that nobody changes.
      actors: the state of every actor.
      snapshot: the session's part.
      replay: writes the replay.

    Raises:
      CannotSave: the checkpoint cannot be written.
      Lost: the replay cannot be saved.
    """
    with checkpoints.writing() as (folder, entries):
        replay(folder / REPLAY)
        Checkpoints(folder / LEARNER, network, keep=1).save(state)
        write_actor_states(folder / ACTORS, actors)
        snapshot.write(folder, entries)
        # The learner may have made updates that it has not reported yet.
        entries["counters"]["step"] = int(np.asarray(state.step))


def copy_replay(checkpoints: RunCheckpoints, target: Path) -> None:
    """Copies the replay of the last checkpoint that has one, if any, to a checkpoint that is being written.

    Raises:
      OSError: the replay cannot be copied.
    """
    for number in reversed(checkpoints.numbers()):
        source = checkpoints.path(number) / REPLAY
        if source.is_dir():
            shutil.copytree(source, target)
            return
