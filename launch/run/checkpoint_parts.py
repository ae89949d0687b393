"""The parts of a run's checkpoint: their names, and a hash of each for people and comparisons.

A part is a group of files, leaves of the training state, or a value of the manifest. `checkpoints.py` checks the files
themselves.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LEARNER, REPLAY, ACTORS, PUBLISHED, BEST = "learner", "replay", "actors.json", "published.msgpack", "best"
CONFIG = "config.json"
MANIFEST = "manifest.json"

# Leaves of the training state, by the prefixes of their paths.
_LEAVES = {
    "parameters": "params/",
    "target": "target_params/",
    "optimiser": "opt_state/",
    "step": "step",
    "learner_key": "key",
}
_FILES = {"actors": ACTORS, "published": PUBLISHED, "replay": f"{REPLAY}/", "best": f"{BEST}/", "config": CONFIG}
_VALUES = ("counters", "metrics_offset", "metrics_sha256", "programs")


def parts_of(folder: Path, files: Mapping[str, str], entries: Mapping[str, Any]) -> dict[str, str]:
    """Returns the SHA-256 of each part that a checkpoint has, by name.

    * `parameters`, `target`, `optimiser`, `step`, `learner_key`: leaves of the training state (`leaves_sha256`).
    * `actors` (positions, lines of play, random keys), `published` (the actors' parameters), `config`: files.
    * `replay` (segments, priorities, rate limiter, random state), `best`: folders, hashed as lines `NAME SHA256`.
    * `counters`, `metrics_offset`, `metrics_sha256`, `programs`: entries of the manifest (`json_sha256`).

    Args:
      folder: the checkpoint's folder.
      files: SHA-256 of every file, by its path in `folder`.
      entries: the manifest's entries besides files and parts.
    """
    parts = {}
    for name, prefix in _FILES.items():
        lines = [f"{path} {digest}\n" for path, digest in sorted(files.items()) if path.startswith(prefix)]
        if prefix in files:
            parts[name] = files[prefix]
        elif lines:
            parts[name] = hashlib.sha256("".join(lines).encode()).hexdigest()
    for path in files:
        steps = path.split("/")
        if steps[0] == LEARNER and len(steps) == 3 and steps[-1] == MANIFEST:
            manifest = json.loads((folder / path).read_bytes())
            found = {name: leaves_sha256(manifest, prefix) for name, prefix in _LEAVES.items()}
            parts |= {name: digest for name, digest in found.items() if digest is not None}
    return parts | {name: json_sha256(entries[name]) for name in _VALUES if name in entries}


def leaves_sha256(learner_manifest: Mapping[str, Any], prefix: str) -> str | None:
    """Returns a hash of the leaves of a training state whose paths begin with `prefix`, from its manifest.

    The hash is the SHA-256 of a line `PATH DTYPE SHAPE SHA256` per leaf, sorted by path; SHAPE is as in `3,256`, and
    SHA256 that of the leaf's values (C order, little endian). Hashes are equal if and only if the leaves are. None if
    there are no such leaves, or the checkpoint is of a version that did not hash them.
    """
    lines = []
    for leaf in learner_manifest["leaves"]:
        if leaf["path"].startswith(prefix):
            if "sha256" not in leaf:
                return None
            shape = ",".join(str(size) for size in leaf["shape"])
            lines.append(f"{leaf['path']} {leaf['dtype']} {shape} {leaf['sha256']}\n")
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest() if lines else None


def json_sha256(value: Any) -> str:
    """Returns the SHA-256 of a JSON value, whatever its layout and the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
