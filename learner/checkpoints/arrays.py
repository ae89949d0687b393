"""The arrays of a checkpoint: leaves of the training state, written by orbax and restored by their paths."""

import hashlib
from pathlib import Path
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp

from ...env.errors import FormatError, UserError
from ...env.storage.atomic import sha256_of
from ..state import TrainingState

ARRAYS = "arrays"


def leaf_paths(tree: Any) -> list[str]:
    """Returns the path of each leaf, in the order of `jax.tree.leaves`, e.g. `params/dynamics/action/kernel`."""
    # Spelt out, so that the file does not depend on how a version of JAX prints its keys.
    return ["/".join(_key_name(key) for key in path) for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]]


def _key_name(key: Any) -> str:
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    raise TypeError(f"cannot name the tree key {key!r}")


def write_arrays(state: TrainingState, directory: Path) -> list[dict[str, Any]]:
    """Writes the leaves as a flat dictionary `{"00000": array, ...}`; returns the manifest's list of them.

    Flat, because versions of orbax differ in how they name and restore nested optimiser states.
    """
    arrays = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    try:
        with ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(directory, {f"{index:05d}": array for index, array in enumerate(arrays)})
    except ValueError as error:  # tensorstore's error for a full disk; its text ends in source locations
        raise OSError(str(error).split(" [source")[0]) from error
    return [
        {
            "path": path,
            "shape": list(array.shape),
            "dtype": str(array.dtype),
            # The hash of the values alone: orbax names and packs its files differently each time.
            "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
        }
        for path, array in zip(leaf_paths(state), arrays, strict=True)
    ]


def read_arrays(path: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Returns the leaves by their paths, after checking every file against its hash. Raises FormatError."""
    found = hash_files(path / ARRAYS)
    for name, digest in manifest["files"].items():
        if name not in found:
            raise FormatError(f"{path / ARRAYS / name}: missing; use another checkpoint")
        if found[name] != digest:
            raise FormatError(f"{path / ARRAYS / name}: damaged (its hash has changed); use another checkpoint")
    names = [f"{index:05d}" for index in range(len(manifest["leaves"]))]
    restore = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
    with ocp.PyTreeCheckpointer() as checkpointer:
        arrays = checkpointer.restore(path / ARRAYS, restore_args=restore)
    return {leaf["path"]: arrays[name] for name, leaf in zip(names, manifest["leaves"], strict=True)}


def fill(path: Path, template: Any, manifest: dict[str, Any], arrays: dict[str, Any], prefix: str = "") -> Any:
    """Returns the template with its leaves replaced by those of the checkpoint whose paths start with `prefix`.

    Raises:
      UserError: a leaf is missing, has another shape or type, or has no place in the template.
    """
    leaves, structure = jax.tree_util.tree_flatten(template)
    filled = []
    wanted_paths = [prefix + name for name in leaf_paths(template)]
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


def hash_files(directory: Path) -> dict[str, str]:
    """Returns the SHA-256 of every file, by its path in `directory`."""
    files = sorted(file for file in directory.rglob("*") if file.is_file())
    return {file.relative_to(directory).as_posix(): sha256_of(file) for file in files}
