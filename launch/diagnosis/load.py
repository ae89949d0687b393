"""Loads the agent to diagnose: from a run, a policy file, or a learner's checkpoint alone."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...actors.diagnosis.agent import Agent
from ...actors.search.search import SearchConfig
from ...actors.self_play.config import ActorConfig
from ...env.errors import FormatError, UserError
from ...env.game.moves import NUM_MOVES
from ...env.game.observation import OBSERVATION_SIZE
from ...learner.checkpoints.checkpoint import Checkpoints, load_parameters
from ...learner.checkpoints.manifest import FORMAT
from ...learner.checkpoints.policy_file import read_policy
from ...learner.networks.network import Network
from ..config.config import config_from_json
from ..run.checkpoints import ACTORS, LEARNER, RunCheckpoints
from ..run.directory import RunDirectory
from ..session.snapshot import read_actor_states


def load_agent(path: str | Path) -> Agent:
    """Returns the agent of a run's last checkpoint, of a policy file, or of a learner's checkpoint folder.

    A policy plays by the settings of its training, if its file holds them; a checkpoint alone plays by the defaults.

    Raises:
      UserError: `path` is none of them, or of another game.
      FormatError: the file or folder is damaged, or of another version.
    """
    path, lines = Path(path), {}
    actor, search, seed = ActorConfig(), SearchConfig(), 0
    if path.is_file():
        network, params, info = read_policy(path)
        step = int(info.get("step", 0))
        if "config" in info:
            config = config_from_json(info["config"], str(path))
            actor, search, seed = config.actor, config.search, config.seed
    elif _is_checkpoint(path):
        network, params, step = load_parameters(path)
    else:
        run = RunDirectory(path)
        config, manifest = run.open()
        folder, _ = RunCheckpoints(run.checkpoints, keep=1).read()
        learner = folder / LEARNER
        checkpoints = Checkpoints(learner, Network(config.network))
        network, params, step = load_parameters(checkpoints.path(checkpoints.steps()[-1]))
        actor, search, seed = config.actor, config.search, config.seed
        lines = {} if network.config.candidates else _lines(folder / ACTORS, manifest)
    if network.config.candidates:
        raise UserError(
            f"{path}: plays the game `residency`; `diagnose` looks at agents of `train --game access`; judge this one "
            "by placebos, `solve --policy ... --placebo untrained`"
        )
    for name, needed in (("observation_size", OBSERVATION_SIZE), ("num_actions", NUM_MOVES)):
        found = getattr(network.config, name)
        if found != needed:
            raise UserError(f"{path}: network.{name} is {found}, this version's game has {needed}; use its own version")
    return Agent(
        path=str(path),
        network=network,
        params=params,
        step=step,
        actor=actor,
        search=search,
        seed=seed,
        lines=lines,
        projects=not path.is_file(),
    )


def _lines(path: Path, manifest: Mapping[str, Any]) -> dict[str, list[int]]:
    """Returns the moves of the best line of any actor, by the hash of its program."""
    best: dict[str, tuple[float, str]] = {}
    try:
        hashes = [str(entry["sha256"]) for entry in manifest["programs"]]
        for state in read_actor_states(path):
            for sha256, (latency_s, moves) in zip(hashes, state["lines"], strict=True):
                best[sha256] = min(best.get(sha256, (np.inf, "")), (float(latency_s), str(moves)))
        return {sha256: [int(move) for move in moves] for sha256, (_, moves) in best.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: holds no lines of play of this version ({error!r}); use its own version") from error


def _is_checkpoint(path: Path) -> bool:
    """Returns whether a folder is a learner's checkpoint. Any other is read as a run, which reports what is wrong."""
    try:
        manifest = json.loads((path / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("format") == FORMAT
