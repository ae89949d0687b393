"""Checkpoints written beside training: a thread of the driver writes them while actors and learner go on."""

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
from ..train.session import Snapshot, write_actor_states

# Writes the replay's content into a new folder.
SaveReplay = Callable[[Path], None]


class Saving:
    """Writes one checkpoint.

    Args:
      checkpoints: where to.
      network: of the state.
      state: the training state; NumPy arrays that nobody changes.
      actors: where every actor stands.
      snapshot: what the session adds.
      replay: writes the replay.
    """

    def __init__(
        self,
        checkpoints: RunCheckpoints,
        network: Network,
        state: TrainingState,
        actors: Sequence[Mapping[str, Any]],
        snapshot: Snapshot,
        replay: SaveReplay,
    ) -> None:
        self._error: BaseException | None = None
        self._arguments = (checkpoints, network, state, actors, snapshot, replay)
        self._thread = threading.Thread(target=self._run, name="checkpoint", daemon=True)
        self._thread.start()

    def wait(self, timeout_s: float) -> bool:
        """Waits for it to end; returns whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def result(self) -> None:
        """Raises what `write_checkpoint` has raised, once it has ended."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            write_checkpoint(*self._arguments)
        except BaseException as error:  # noqa: BLE001  (the driver raises it)
            self._error = error


def write_checkpoint(
    checkpoints: RunCheckpoints,
    network: Network,
    state: TrainingState,
    actors: Sequence[Mapping[str, Any]],
    snapshot: Snapshot,
    replay: SaveReplay,
) -> None:
    """Writes a checkpoint; arguments as those of `Saving`.

    Raises:
      CannotSave: it cannot be written.
    """
    with checkpoints.writing() as (folder, entries):
        replay(folder / REPLAY)
        Checkpoints(folder / LEARNER, network, keep=1).save(state)
        write_actor_states(folder / ACTORS, actors)
        snapshot.write(folder, entries)
        # The learner may be ahead of what it has reported.
        entries["counters"]["step"] = int(np.asarray(state.step))


def copy_replay(checkpoints: RunCheckpoints, target: Path) -> None:
    """Puts the replay of the last checkpoint that has one, if any, into another that is being written.

    Raises:
      OSError: it cannot be copied.
    """
    for number in reversed(checkpoints.numbers()):
        source = checkpoints.path(number) / REPLAY
        if source.is_dir():
            shutil.copytree(source, target)
            return
