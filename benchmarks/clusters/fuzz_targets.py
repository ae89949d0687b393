"""Readers that are fuzzed: each with a valid file, a function that writes it damaged, and the call that reads it."""

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import msgpack
import numpy as np
from flax import serialization

from mallocmuzero.env import workloads
from mallocmuzero.env.program.mapping_file import read_mapping, write_mapping
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.program.program_file import read_program
from mallocmuzero.launch.config.config import TrainConfig
from mallocmuzero.launch.run.checkpoint_parts import json_sha256
from mallocmuzero.launch.run.checkpoints import RunCheckpoints
from mallocmuzero.launch.run.directory import RunDirectory
from mallocmuzero.launch.run.json_file import write_json_file
from mallocmuzero.launch.status.status import run_status
from mallocmuzero.learner.checkpoints.manifest import read_manifest
from mallocmuzero.learner.checkpoints.policy_file import read_policy, write_policy
from mallocmuzero.learner.checkpoints.stored_network import stored_network
from mallocmuzero.learner.networks.network import Network, NetworkConfig
from mallocmuzero.replay import checkpoint as replay_checkpoint
from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.segment import SegmentSpec

from .mutations import mutate_bytes, mutate_document, mutate_json

PROGRAM = "tiny"
_PROGRAM_FILE = Path(workloads.__file__).parent / "programs" / f"{PROGRAM}.json.gz"
_NETWORK = Network(NetworkConfig(observation_size=6, width=8, projection_width=8))


@dataclass(frozen=True)
class Target:
    """One reader.

    Attributes:
      write: writes a damaged file.
      read: reads the file.
    """

    write: Callable[[random.Random], Any]
    read: Callable[[], Any]


def targets(folder: Path) -> dict[str, Callable[[], Target]]:
    """Returns a function that makes the target of each reader, by name; its files lie in `folder`."""
    return {
        "read_program": lambda: _program(folder),
        "read_mapping": lambda: _mapping(folder),
        "run manifest, config": lambda: _run(folder),
        "checkpoint manifest": lambda: _checkpoint(folder),
        "learner manifest": lambda: _learner(folder),
        "replay manifest": lambda: _replay(folder),
        "status": lambda: _status(folder),
        "read_policy": lambda: _policy(folder),
    }


def _gzipped(document: Any, path: Path) -> Callable[[random.Random], Any]:
    packed = gzip.compress(json.dumps(document).encode(), 1)

    def write(generator: random.Random) -> None:
        if generator.random() < 0.1:
            path.write_bytes(mutate_bytes(packed, generator))
        else:
            path.write_bytes(gzip.compress(mutate_document(document, generator), 1))

    return write


def _program(folder: Path) -> Target:
    path = folder / "program.json.gz"
    document = json.loads(gzip.decompress(_PROGRAM_FILE.read_bytes()))
    return Target(_gzipped(document, path), lambda: read_program(path))


def _mapping(folder: Path) -> Target:
    program, path = workloads.load(PROGRAM), folder / "mapping.json.gz"
    write_mapping(program.production or all_hbm(program), program, path)
    document = json.loads(gzip.decompress(path.read_bytes()))
    return Target(_gzipped(document, path), lambda: read_mapping(path, program))


def _policy(folder: Path) -> Target:
    path = folder / "a.policy"
    write_policy(path, _NETWORK, _NETWORK.init(jax.random.PRNGKey(0)), {"seed": 0})
    packed = path.read_bytes()
    data = gzip.decompress(packed)
    document = serialization.msgpack_restore(data)

    def write(generator: random.Random) -> None:
        kind = generator.random()
        if kind < 0.1:
            path.write_bytes(mutate_bytes(packed, generator))
            return
        if kind < 0.4:
            path.write_bytes(gzip.compress(mutate_bytes(data, generator), 1))
            return
        changed = dict(document)
        field = generator.choice(("network", "network", "info", "parameters", "parameters", "format_version"))
        if field in ("network", "info"):
            changed[field] = mutate_document(json.loads(document[field]), generator).decode("utf-8", "replace")
        elif field == "parameters":
            changed[field] = _mutate_arrays(document[field], generator)
        else:
            changed[field] = mutate_json(document[field], generator)
        try:
            packed_again = serialization.msgpack_serialize(changed)
        except (ValueError, TypeError, OverflowError, msgpack.exceptions.PackException, UnicodeEncodeError):
            packed_again = mutate_bytes(data, generator)  # not every value can be serialised
        path.write_bytes(gzip.compress(packed_again, 1))

    return Target(write, lambda: read_policy(path))


def _mutate_arrays(value: Any, generator: random.Random) -> Any:
    if isinstance(value, dict) and value and generator.random() < 0.95:
        key = generator.choice(list(value))
        if generator.random() < 0.1:
            return {name: item for name, item in value.items() if name != key}
        return {**value, key: _mutate_arrays(value[key], generator)}
    odd = (np.zeros((0,), np.float16), np.array("text"), np.full((2, 2), np.nan, np.float16), np.ones(3, np.complex64))
    return generator.choice((*odd, None, "text", 7, [], {}, np.zeros((2, 3), np.float64)))


def _json_files(files: dict[Path, Any]) -> Callable[[random.Random], Any]:
    def write(generator: random.Random) -> None:
        chosen = generator.choice(list(files))
        for path, document in files.items():
            data = mutate_document(document, generator) if path == chosen else json.dumps(document).encode()
            path.write_bytes(data)

    return write


def _run_files(folder: Path) -> tuple[RunDirectory, dict[Path, Any]]:
    run = RunDirectory(folder / "run")
    config = TrainConfig(workloads=(PROGRAM,))
    if not run.manifest_file.exists():
        run.create(config, [workloads.load(PROGRAM)])
    manifest = {
        "format": "mallocmuzero-run",
        "version": 1,
        "code": {"version": "0.1.0", "commit": None},
        "seed": 0,
        "programs": [{"name": PROGRAM, "sha256": workloads.load(PROGRAM).sha256}],
    }
    return run, {run.manifest_file: manifest, run.config_file: config.to_json()}


def _run(folder: Path) -> Target:
    run, files = _run_files(folder)

    def read() -> None:
        _, manifest = run.open()
        run.programs(manifest)

    return Target(_json_files(files), read)


def _checkpoint(folder: Path) -> Target:
    checkpoints = RunCheckpoints(folder / "checkpoints", keep=1)
    if not checkpoints.numbers():
        with checkpoints.writing() as (scratch, entries):
            write_json_file(scratch / "actors.json", {"actors": []})
            write_json_file(scratch / "learner" / "step_000000003" / "manifest.json", {"leaves": []})
            counters = {"step": 3, "moves": 9, "episodes": 1, "program_episodes": {PROGRAM: 1}, "seconds": 2.5}
            entries["counters"] = {**counters, "blocked_s": {"actors": 0.0, "learner": 0.5}, "restarts": {"actor": 1}}
            entries["metrics_offset"] = 100
    path = checkpoints.path(1) / "manifest.json"
    change = _json_files({path: json.loads(path.read_text())})

    def write(generator: random.Random) -> None:
        change(generator)
        try:
            document = json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return
        # The manifest carries its own hash: a hostile writer fits it to the content.
        if isinstance(document, dict) and generator.random() < 0.75:
            content = {name: value for name, value in document.items() if name != "sha256"}
            path.write_text(json.dumps({**content, "sha256": json_sha256(content)}))

    return Target(write, checkpoints.read)


def _learner(folder: Path) -> Target:
    path = folder / "step_000000003" / "manifest.json"
    leaves = [{"path": "params/a/kernel", "shape": [2, 3], "dtype": "float32", "sha256": "a" * 64}]
    config = _NETWORK.config
    document = {
        "format": "mallocmuzero-checkpoint",
        "format_version": 1,
        "code_version": "0.1.0",
        "step": 3,
        "network": config.to_json(),
        "network_sha256": config.sha256,
        "leaves": leaves,
        "files": {"manifest.ocdbt": "b" * 64},
        "info": {},
    }
    write_json_file(path, document)
    return Target(
        _json_files({path: document}), lambda: stored_network(read_manifest(path.parent)["network"], f"{path}: network")
    )


def _replay(folder: Path) -> Target:
    config = ReplayConfig(capacity=40, min_size=5, samples_per_insert=2.0, error_buffer=20.0)
    spec = SegmentSpec(observation_size=6, num_actions=3, unroll_steps=2, td_steps=2, period=2)
    path = folder / "replay" / "replay.json"
    write_json_file(path.parent / "rows.json", [])
    document = {
        "format": "mallocmuzero-replay",
        "version": 1,
        "kind": "local",
        "config": asdict(config),
        "spec": asdict(spec),
        "files": {"rows.json": "a" * 64},
    }
    from mallocmuzero.env.storage.atomic import sha256_of

    document["files"] = {"rows.json": sha256_of(path.parent / "rows.json")}
    return Target(_json_files({path: document}), lambda: replay_checkpoint.read(path.parent, "local", config, spec))


def _status(folder: Path) -> Target:
    run, files = _run_files(folder)
    line = {"time": 1.0, "minutes": 2.0, "step": 3, "play/moves": 9, "blocked/learner_s": 1.0, "replay/inserts": 4}
    row = {"program": PROGRAM, "solver": "muzero-best", "latency_us": 2.0, "production_us": 3.0, "verified": True}
    every = {**files, run.metrics_file: line, run.evaluation_file: [row], run.path / "lock": {"pid": 1, "host": "a"}}
    with_end = _json_files(every)

    def write(generator: random.Random) -> None:
        with_end(generator)
        run.metrics_file.write_bytes(run.metrics_file.read_bytes() + b"\n")

    return Target(write, lambda: json.dumps(run_status(run.path), allow_nan=False))
