"""Writes the hash of every captured program into the manifest: `python -m mallocmuzero.env.workloads.hashes`."""

import json
from pathlib import Path
from typing import Any

from ..storage.atomic import write_atomically
from . import MANIFEST, load, names


def manifest_text(document: dict[str, Any]) -> str:
    """Returns the text of the manifest: one line per workload, so that a change of one workload changes one line."""
    lines = ",\n".join("    " + json.dumps(entry, ensure_ascii=False) for entry in document["workloads"])
    return f'{{\n  "version": {document["version"]},\n  "workloads": [\n{lines}\n  ]\n}}\n'


def main(path: Path = MANIFEST) -> int:
    """Runs the command and returns its exit status."""
    document = json.loads(path.read_text(encoding="utf-8"))
    captured = set(names())
    for entry in document["workloads"]:
        if entry["name"] in captured:
            entry["sha256"] = load(entry["name"]).sha256
    write_atomically(path, manifest_text(document).encode())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
