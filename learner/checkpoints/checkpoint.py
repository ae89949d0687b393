"""Checkpoints of the training state: orbax arrays beside a manifest that says what they are.

A checkpoint is a folder `step_000001234/` with
  `arrays/`: what orbax wrote, one array per leaf of the state;
  `manifest.json`: written last; format version, step, network configuration and its hash, the leaves (path, shape,
    dtype, SHA-256 of the values), and the SHA-256 of every file in `arrays/`.
It is written under a temporary name and renamed when whole, so a folder with a step's name is complete unless someone
damaged it later, which the hashes show.
"""

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from ...env.errors import FormatError, UserError
from ...env.storage.atomic import sha256_of, sync_folder
from ...version import VERSION
from ..networks.network import Network, NetworkConfig, Params
from ..state import TrainingState
from .stored_network import stored_network

FORMAT = "mallocmuzero-checkpoint"
FORMAT_VERSION = 1

_PREFIX = "step_"
_TEMPORARY = ".writing-"
_MANIFEST = "manifest.json"
_ARRAYS = "arrays"
_MOST_MANIFEST_BYTES = 64 * 2**20


class Checkpoints:
    """The checkpoints of one run, in one folder. One process writes; any may read."""

    def __init__(self, directory: str | Path, network: Network, keep: int = 3) -> None:
        """Keeps the last `keep` checkpoints of `network` in `directory`, which is made when first needed."""
        if keep < 1:
            raise UserError(f"checkpoints: keep must be at least 1, not {keep}")
        self._directory = Path(directory).absolute()
        self._network = network
        self._keep = keep

    def save(self, state: TrainingState, info: dict[str, Any] | None = None) -> Path:
        """Writes a checkpoint and returns its folder; replaces one of the same step.

        Args:
          state: the training state.
          info: what else the manifest shall remember, as JSON values. Restoring ignores it.

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
            leaves = _write_arrays(state, temporary / _ARRAYS)
            manifest = {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "code_version": VERSION,
                "step": step,
                "network": self._network.config.to_json(),
                "network_sha256": self._network.config.sha256,
                "leaves": leaves,
                "files": _hash_files(temporary / _ARRAYS),
                "info": info or {},
            }
            _write_synced(temporary / _MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
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
        """Steps of the checkpoints there are, ascending."""
        names = [path.name.removeprefix(_PREFIX) for path in self._directory.glob(f"{_PREFIX}*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def path(self, step: int) -> Path:
        """The folder of the checkpoint of `step`, whether there is one or not."""
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
        _check_network(path, manifest, self._network.config)
        arrays = _read_arrays(path, manifest)
        return _fill(path, template, manifest, arrays)

    def _remove_old(self) -> None:
        for step in self.steps()[: -self._keep]:
            shutil.rmtree(self.path(step))

    def _remove_leftovers(self) -> None:
        """What a replaced checkpoint, or a process that was killed while it wrote, has left."""
        for path in self._directory.glob(f"{_TEMPORARY}*"):
            shutil.rmtree(path)


def load_parameters(path: str | Path) -> tuple[Network, Params, int]:
    """The network, its parameters and the step of a checkpoint folder, for playing without training.

    Raises `UserError` if the folder is no whole checkpoint.
    """
    path = Path(path).absolute()
    manifest = read_manifest(path)
    network = stored_network(manifest["network"], f"{path / _MANIFEST}: field network")
    _check_network(path, manifest, network.config)
    arrays = _read_arrays(path, manifest)
    template = jax.eval_shape(network.init, jax.random.PRNGKey(0))
    params: Params = _fill(path, template, manifest, arrays, prefix="params/")
    return network, params, manifest["step"]


def read_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a checkpoint folder. Raises `FormatError` if there is none or it cannot be read."""
    path = Path(path)
    file = path / _MANIFEST
    if not path.is_dir():
        raise FormatError(f"{path}: no such checkpoint; check the path")
    try:
        manifest = json.loads(_read_bounded(file))
    except FileNotFoundError as error:
        raise FormatError(f"{file}: missing, so this is no whole checkpoint; use another one") from error
    except (OSError, ValueError, RecursionError) as error:
        raise FormatError(f"{file}: cannot be read ({error}); use another checkpoint") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FormatError(f"{file}: format is not {FORMAT}; check the path")
    if manifest.get("format_version") != FORMAT_VERSION:
        raise FormatError(
            f"{file}: format_version is {manifest.get('format_version')}, this code reads {FORMAT_VERSION}; "
            f"use the code version {manifest.get('code_version')} that wrote it"
        )
    for name, kind in (("step", int), ("network", dict), ("network_sha256", str), ("leaves", list), ("files", dict)):
        if not isinstance(manifest.get(name), kind):
            raise FormatError(f"{file}: field {name} is missing or malformed; use another checkpoint")
    if isinstance(manifest["step"], bool) or not 0 <= manifest["step"] < 2**62:
        raise FormatError(f"{file}: field step is {manifest['step']!r:.40}; use another checkpoint")
    for index, leaf in enumerate(manifest["leaves"]):
        whole = isinstance(leaf, dict) and isinstance(leaf.get("path"), str) and isinstance(leaf.get("dtype"), str)
        if not whole or not isinstance(leaf.get("shape"), list):
            raise FormatError(f"{file}: field leaves[{index}] is malformed; use another checkpoint")
    return manifest


def _read_bounded(file: Path) -> bytes:
    if file.exists() and not file.is_file():
        raise OSError("no file")  # A pipe or a device would have no end.
    with file.open("rb") as stream:
        data = stream.read(_MOST_MANIFEST_BYTES + 1)
    if len(data) > _MOST_MANIFEST_BYTES:
        raise OSError(f"more than {_MOST_MANIFEST_BYTES} bytes")
    return data


def _check_network(path: Path, manifest: dict[str, Any], config: NetworkConfig) -> None:
    if manifest["network_sha256"] == config.sha256:
        return
    wanted, found = config.to_json(), manifest["network"]
    names = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    what = "; ".join(f"{name} is {found.get(name)} there, {wanted.get(name)} here" for name in names)
    raise UserError(f"{path}: checkpoint of another network: {what or 'network_sha256 differs'}; use its configuration")


def _leaf_paths(tree: Any) -> list[str]:
    """A name for each leaf, in the order of `jax.tree.leaves`: `params/dynamics/action/kernel`."""
    # Spelt out here, because the file must not depend on how a version of JAX prints its keys.
    return ["/".join(_key_name(key) for key in path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def _key_name(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"cannot name the tree key {key!r}")


def _write_arrays(state: TrainingState, directory: Path) -> list[dict[str, Any]]:
    """Writes the leaves as a flat dictionary `{"00000": array, ...}` and returns the manifest's list of them.

    Flat, because how orbax names and restores nested optimiser states differs between its versions.
    """
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    try:
        with ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(directory, {f"{index:05d}": array for index, array in enumerate(arrays)})
    except ValueError as error:  # how tensorstore reports a full disk; its text ends in source locations
        raise OSError(str(error).split(" [source")[0]) from error
    return [
        {
            "path": path,
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            # Of the values alone: orbax names and packs its files anew each time.
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        for path, array in zip(_leaf_paths(state), arrays, strict=True)
    ]


def _read_arrays(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Leaves by their path in the state, after checking every file against its hash."""
    found = _hash_files(path / _ARRAYS)
    for name, digest in manifest["files"].items():
        if name not in found:
            raise FormatError(f"{path / _ARRAYS / name}: missing; use another checkpoint")
        if found[name] != digest:
            raise FormatError(f"{path / _ARRAYS / name}: damaged (its hash has changed); use another checkpoint")
    names = [f"{index:05d}" for index in range(len(manifest["leaves"]))]
    restore = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
    with ocp.PyTreeCheckpointer() as checkpointer:
        arrays = checkpointer.restore(path / _ARRAYS, restore_args=restore)
    return {leaf["path"]: arrays[name] for name, leaf in zip(names, manifest["leaves"], strict=True)}


def _fill(path: Path, template: Any, manifest: dict[str, Any], arrays: dict[str, Any], prefix: str = "") -> Any:
    """The template with its leaves replaced by those of the checkpoint whose paths start with `prefix`."""
    leaves, structure = jax.tree_util.tree_flatten(template)
    filled = []
    wanted_paths = [prefix + name for name in _leaf_paths(template)]
    for name, leaf in zip(wanted_paths, leaves, strict=True):
        if name not in arrays:
            raise UserError(f"{path}: has no {name}: saved with another optimiser; use the configuration that wrote it")
        array = arrays[name]
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise UserError(
                f"{path}: {name} is {array.dtype}{list(array.shape)}, not {leaf.dtype}{list(leaf.shape)}; "
                "use the configuration that wrote it"
            )
        filled.append(jax.numpy.asarray(array))
    extra = [name for name in arrays if name.startswith(prefix) and name not in set(wanted_paths)]
    if extra:
        raise UserError(f"{path}: {extra[0]} has no place here: saved with another optimiser; use its configuration")
    return jax.tree_util.tree_unflatten(structure, filled)


def _hash_files(directory: Path) -> dict[str, str]:
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    return {file.relative_to(directory).as_posix(): sha256_of(file) for file in files}


def _write_synced(path: Path, text: str) -> None:
    with path.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
