"""What the parts of a run's checkpoint are called, and the hash of each: an index for people and for comparisons.

Files are checked one by one (`checkpoints.py`); a part is some files, leaves of one, or values of the manifest.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LEARNER, REPLAY, ACTORS, PUBLISHED, BEST = "learner", "replay", "actors.json", "published.msgpack", "best"
CONFIG = "config.json"
MANIFEST = "manifest.json"

# Leaves of the training state, by what their paths begin with.
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

    `parameters`, `target`, `optimiser`, `step`, `learner_key`: leaves of the training state, as `leaves_sha256` hashes
    them. `actors` (positions, lines of play and random keys), `published` (what the actors of one process play with),
    `replay` (segments, priorities, rate limiter, random state; its hash is that of lines `NAME SHA256`), `best`
    (likewise), `config`. `counters`, `metrics_offset`, `metrics_sha256`, `programs`: of the manifest's own entries, as
    `json_sha256` hashes them.

    Args:
      folder: the checkpoint's.
      files: SHA-256 of every file in it, by its path there.
      entries: the manifest's other entries.
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
    """Returns a hash of those leaves of a training state whose paths begin with `prefix`, from its manifest.

    It is the SHA-256 of a line `PATH DTYPE SHAPE SHA256` per leaf, sorted by path, with SHAPE as in `3,256` and SHA256
    that of the leaf's values (C order, little endian): equal if and only if the leaves are. None if there are none, or
    the checkpoint is of a version that did not hash them.
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
