"""The manifest of a training-state checkpoint: reading, and checking it against a network."""

import json
from pathlib import Path
from typing import Any

from ...env.errors import FormatError, UserError
from ..networks.network import NetworkConfig

FORMAT = "mallocmuzero-checkpoint"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_MOST_BYTES = 64 * 2**20


def read_manifest(path: str | Path) -> dict[str, Any]:
    """Returns the manifest of a checkpoint folder. Raises FormatError if there is none, or it is damaged."""
    path = Path(path)
    file = path / MANIFEST
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


def check_network(path: Path, manifest: dict[str, Any], config: NetworkConfig) -> None:
    """Raises UserError, naming the settings that differ, if a checkpoint is of another network."""
    if manifest["network_sha256"] == config.sha256:
        return
    wanted, found = config.to_json(), manifest["network"]
    names = [name for name in sorted({*wanted, *found}) if wanted.get(name) != found.get(name)]
    what = "; ".join(f"{name} is {found.get(name)} there, {wanted.get(name)} here" for name in names)
    raise UserError(f"{path}: checkpoint of another network: {what or 'network_sha256 differs'}; use its configuration")


def _read_bounded(file: Path) -> bytes:
    if file.exists() and not file.is_file():
        raise OSError("no file")  # A pipe or a device would have no end.
    with file.open("rb") as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise OSError(f"more than {_MOST_BYTES} bytes")
    return data
