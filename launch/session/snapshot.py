"""The session's own part of a checkpoint: counters, configuration, best mappings and the states of the actors."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..run.checkpoints import BEST, CONFIG
from ..run.json_file import write_json_file


@dataclass(frozen=True)
class Snapshot:
    """The state of a session at one moment. Another thread may write it while the session goes on.

    Attributes:
      entries: entries of the checkpoint's manifest.
      config: the configuration in force.
      best: files of the best mappings.
    """

    entries: dict[str, Any]
    config: dict[str, Any]
    best: list[Path]

    def write(self, folder: Path, entries: dict[str, Any]) -> None:
        """Adds the snapshot to a checkpoint that is being written. Raises OSError or UserError if it cannot."""
        entries.update(self.entries)
        write_json_file(folder / CONFIG, self.config)
        (folder / BEST).mkdir()
        for path in self.best:
            shutil.copyfile(path, folder / BEST / path.name)


@dataclass(frozen=True)
class Resumed:
    """The checkpoint that a run is resumed from: its folder and its manifest."""

    folder: Path
    manifest: dict[str, Any]


def write_actor_states(path: Path, states: Sequence[Mapping[str, Any]]) -> None:
    """Writes the state of every actor (`Actor.state`)."""
    path.write_text(json.dumps({"actors": list(states)}), encoding="utf-8")


def read_actor_states(path: Path) -> list[dict[str, Any]]:
    """Returns the states that `write_actor_states` wrote; the checkpoint's manifest vouches for the file's content."""
    states: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["actors"]
    return states
