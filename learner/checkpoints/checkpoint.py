"""Checkpoints of the training state: orbax arrays beside a manifest that describes them.

A checkpoint is a folder `step_000001234/` with
  `arrays/`: orbax's files, one array per leaf of the state;
  `manifest.json`: written last; format version, step, network configuration and its hash, the leaves (path, shape,
    dtype, SHA-256 of the values), and the SHA-256 of every file in `arrays/`.
It is written under a temporary name and renamed when whole, so a folder with a step's name is complete unless it was
damaged later, which the hashes show.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import jax

from ...env.errors import UserError
from ...env.storage.atomic import sync_folder
from ...version import VERSION
from ..networks.network import Network, Params
from ..state import TrainingState
from .arrays import ARRAYS, fill, hash_files, read_arrays, write_arrays
from .manifest import FORMAT, FORMAT_VERSION, MANIFEST, check_network, read_manifest
from .stored_network import stored_network

_PREFIX = "step_"
_TEMPORARY = ".writing-"


class Checkpoints:
    """The checkpoints of one run, in one folder. One process writes; any may read."""

    def __init__(self, directory: str | Path, network: Network, keep: int = 3) -> None:
        """Keeps the last `keep` checkpoints of `network` in `directory`, which the first one makes."""
        if keep < 1:
            raise UserError(f"checkpoints: keep must be at least 1, not {keep}")
        self._directory = Path(directory).absolute()
        self._network = network
        self._keep = keep

    def save(self, state: TrainingState, info: dict[str, Any] | None = None) -> Path:
        """Writes a checkpoint and returns its folder; replaces one of the same step.

        Args:
          state: the training state.
          info: further JSON values for the manifest. Restoring ignores them.

        Raises:
          UserError: the folder cannot be written, e.g. because the disk is full.
        """
        step = int(state.step)
        final = self._directory / f"{_PREFIX}{step:09d}"
        temporary = self._directory / f"{_TEMPORARY}{step:09d}-{os.getpid()}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            temporary.mkdir()
            leaves = write_arrays(state, temporary / ARRAYS)
            manifest = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "code_version": VERSION,
                "step": step,
                "network": self._network.config.to_json(),
                "network_sha256": self._network.config.sha256,
                "leaves": leaves,
                "files": hash_files(temporary / ARRAYS),
                "info": info or {},
            }
            _write_synced(temporary / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
            if final.exists():
                final.rename(self._directory / f"{_TEMPORARY}replaced-{os.getpid()}")
            temporary.rename(final)
            sync_folder(self._directory)
            self._remove_leftovers()
            self._remove_old()
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise UserError(f"{final}: cannot write the checkpoint: {error}; check free space and rights") from error
        return final

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints in the folder, ascending."""
        names = [path.name.removeprefix(_PREFIX) for path in self._directory.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, step: int) -> Path:
        """Returns the folder of the checkpoint of `step`, whether it exists or not."""
        return self._directory / f"{_PREFIX}{step:09d}"

    def restore(self, template: TrainingState, step: int | None = None) -> TrainingState:
        """Reads the checkpoint of `step`, by default the last one.

        Args:
          template: a state of the same network and optimiser, e.g. from `init_state`; gives structure, not values.
          step: which checkpoint.

        Raises:
          UserError: there is none, it is damaged, or it belongs to another network, optimiser or format.
        """
        steps = self.steps()
        if not steps:
            raise UserError(f"{self._directory}: no checkpoint there; check the path")
        if step is None:
            step = steps[-1]
        elif step not in steps:
            raise UserError(f"{self._directory}: no checkpoint of step {step}; there are {steps}")
        path = self.path(step)
        manifest = read_manifest(path)
        check_network(path, manifest, self._network.config)
        arrays = read_arrays(path, manifest)
        return fill(path, template, manifest, arrays)

    def _remove_old(self) -> None:
        for step in self.steps()[: -self._keep]:
            shutil.rmtree(self.path(step))

    def _remove_leftovers(self) -> None:
        """Removes what a replaced checkpoint or a killed writer has left behind."""
        for path in self._directory.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path)


def load_parameters(path: str | Path) -> tuple[Network, Params, int]:
    """Returns network, parameters and step of a checkpoint folder, for playing without training.

    Raises:
      UserError: the folder is no whole checkpoint.
    """
    path = Path(path).absolute()
    manifest = read_manifest(path)
    network = stored_network(manifest["network"], f"{path / MANIFEST}: field network")
    check_network(path, manifest, network.config)
    arrays = read_arrays(path, manifest)
    template = jax.eval_shape(network.init, jax.random.PRNGKey(0))
    params: Params = fill(path, template, manifest, arrays, prefix="params/")
    return network, params, manifest["step"]


def _write_synced(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
