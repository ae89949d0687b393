"""The status of a run, read from its folder alone: takes no lock, and asks no process that trains there."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...env.errors import FormatError, UserError
from ..run.checkpoint_parts import leaves_sha256
from ..run.checkpoints import FORMAT, FORMAT_VERSION, LEARNER, MANIFEST, RunCheckpoints
from ..run.directory import RunDirectory
from ..run.json_file import check_format, read_bytes, read_json_file
from .bottleneck import Waits, bottleneck
from .lock_holder import lock_holder
from .metrics_tail import Tail, number, read_tail

RUNNING, FINISHED, STOPPED, UNKNOWN = "running", "finished", "stopped", "unknown"
# A running process writes figures every few seconds, except while it compiles, evaluates or saves.
_SILENT_S = 60.0
_SILENT_REPORTS = 6
_LOG_BYTES = 4096
_ATTEMPTS = 3
# The cost models, by name: `env.physics.cost` would load NumPy.
_MODELS = ("msa", "cycles")


def run_status(run_dir: str | Path) -> dict[str, Any]:
    """Returns the object that `mallocmuzero status --json` writes (docs/json.md).

    Raises:
      UserError: there is no run of this version.
      FormatError: the run's manifest or configuration is damaged. Damage of other files is one of the `warnings`.
    """
    run = RunDirectory(run_dir)
    try:
        manifest = run.manifest()
    except OSError as error:
        raise UserError(f"{run.path}: cannot be read ({error.strerror}); check its rights") from error
    config = read_json_file(run.config_file)
    warnings: list[str] = []
    holder = lock_holder(run.path / "lock")
    if holder.running is None:
        warnings.append(f"whether it is running cannot be told: {holder.why}")
    checkpoint, damaged = _checkpoint(run, warnings)
    tail = read_tail(run.metrics_file)
    if tail.damaged:
        warnings.append(f"{run.metrics_file}: {tail.damaged} of the last lines are no figures; they are passed over")
    # A stopped run counts up to its last checkpoint; --resume makes the rest again.
    saved_step = None if checkpoint is None else checkpoint["step"]
    step = int(number(tail.last, "step"))
    if holder.running is False and saved_step is not None:
        if step > saved_step:
            warnings.append(f"it was killed: updates {saved_step + 1} to {step} are made again by --resume")
        step = saved_step
    now = time.time()
    age = _age(now, tail.last.get("time"))
    silent_after = max(_SILENT_S, _SILENT_REPORTS * _number(config, "schedule", "report_seconds", 5.0))
    if holder.running and age is not None and age > silent_after:
        warnings.append(
            f"no figures for {age:.0f} s: it compiles, evaluates or saves, or it hangs; {run.log_file} says what it did"
        )
    waits = _waits(config, tail)
    limited_by, why = bottleneck(waits) if tail.last else (None, "there are no figures yet")
    return {
        "run_dir": str(run.path),
        "state": _state(holder.running, config, checkpoint),
        "running": holder.running,
        "pid": holder.pid if holder.running is not False else None,
        "host": holder.host if holder.running is not False else None,
        "topology": _text(config.get("topology")),
        "actors": int(_number(config, "", "actors", 1)),
        "programs": _programs(manifest),
        "step": step,
        "moves": int(number(tail.last, "play/moves")),
        "episodes": int(number(tail.last, "play/episodes")),
        "minutes": number(tail.last, "minutes"),
        "until": {name: _figure(config.get(name)) for name in ("steps", "minutes")},
        "parameters_sha256": None if checkpoint is None else checkpoint.pop("parameters_sha256"),
        "best": _best(run, manifest, tail, warnings),
        "rates": _rates(tail),
        "blocked": {
            "learner_s": number(tail.last, "blocked/learner_s"),
            "actors_s": number(tail.last, "blocked/actors_s"),
            "by_cause": _by_cause(tail),
            "learner_share": waits.learner,
            "actors_share": waits.actors,
        },
        "policy_lag": _figure(tail.last.get("play/policy_lag")),
        "replay": _replay(config, tail),
        "restarts": {
            name.removeprefix("restarts/"): int(value or 0)
            for name, value in tail.last.items()
            if name.startswith("restarts/")
        },
        "limited_by": limited_by,
        "why": why,
        "metrics_age_s": age,
        "checkpoint": checkpoint,
        "damaged_checkpoint": damaged,
        "last_log": _last_line(run.log_file),
        "warnings": warnings,
    }


def _state(running: bool | None, config: Mapping[str, Any], checkpoint: Mapping[str, Any] | None) -> str:
    if running is not False:
        return UNKNOWN if running is None else RUNNING
    if checkpoint is not None:
        steps, minutes = _figure(config.get("steps")), _figure(config.get("minutes"))
        if steps is not None and checkpoint["step"] >= steps:
            return FINISHED
        if minutes is not None and checkpoint["minutes"] >= minutes:
            return FINISHED
    return STOPPED


def _checkpoint(run: RunDirectory, warnings: list[str]) -> tuple[dict[str, Any] | None, str | None]:
    """Returns the newest checkpoint, or None, and its folder if it is damaged, or None.

    If it is removed meanwhile, there is a newer one.
    """
    checkpoints = RunCheckpoints(run.checkpoints, keep=1)
    for _ in range(_ATTEMPTS):
        numbers = checkpoints.numbers()
        if not numbers:
            return None, None
        try:
            return _read_checkpoint(checkpoints.path(numbers[-1])), None
        except FormatError as error:
            if checkpoints.numbers() == numbers:
                before = f"; {checkpoints.path(numbers[-2]).name} is the one before it" if len(numbers) > 1 else ""
                warnings.append(f"{error}{before}")
                return None, str(checkpoints.path(numbers[-1]))
    warnings.append(f"{run.checkpoints}: its checkpoints change faster than they can be read; ask again")
    return None, None


def _read_checkpoint(folder: Path) -> dict[str, Any]:
    """Returns what the manifests of a checkpoint say, without reading its large files. Raises FormatError."""
    path = folder / MANIFEST
    manifest = read_json_file(path)
    check_format(manifest, FORMAT, FORMAT_VERSION, path)
    try:
        written = path.stat().st_mtime
        (learner,) = sorted((folder / LEARNER).glob("step_*"))[-1:]
        digest = read_bytes(learner / MANIFEST)
        expected = manifest["files"][f"{LEARNER}/{learner.name}/{MANIFEST}"]
        if hashlib.sha256(digest).hexdigest() != expected:
            raise FormatError(f"{learner / MANIFEST}: damaged (its hash has changed)")
        counters = manifest["counters"]
        if _figure(counters["step"]) is None or _figure(counters["seconds"]) is None:
            raise FormatError(f"{path}: field `counters` has numbers that cannot be")
        return {
            "path": str(folder),
            "step": int(counters["step"]),
            "minutes": float(counters["seconds"]) / 60,
            "age_s": max(0.0, time.time() - written),
            "with_replay": (folder / "replay").is_dir(),
            "parameters_sha256": leaves_sha256(json.loads(digest), "params/"),
        }
    except OSError as error:
        raise FormatError(f"{folder}: cannot be read ({error.strerror})") from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"{folder}: is no whole checkpoint ({error!r:.80})") from error


def _programs(manifest: Mapping[str, Any]) -> list[str]:
    entries = manifest.get("programs")
    if not isinstance(entries, list):
        return []
    return [str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry]


def _best(
    run: RunDirectory, manifest: Mapping[str, Any], tail: Tail, warnings: list[str]
) -> dict[str, dict[str, float | None]]:
    """Returns the best verified latency of each program, from training or from the evaluation at its end."""
    found: dict[str, dict[str, float | None]] = {}
    for name in _programs(manifest):
        latency_us = _figure(tail.last.get(f"best/{name}/latency_us"))
        if latency_us is not None:
            ratio = _figure(tail.last.get(f"best/{name}/of_production"))
            found[name] = {"latency_us": latency_us, "of_production": ratio, **_beside(tail, name)}
    try:
        if not run.evaluation_file.exists():
            return found
        for row in json.loads(read_bytes(run.evaluation_file)):
            name, latency_us, production_us = row["program"], float(row["latency_us"]), row["production_us"]
            known = found.get(name, {}).get("latency_us")
            agents = row["solver"].startswith("muzero") and row["solver"] != "muzero-or-production"
            if agents and row["verified"] is True and (known is None or latency_us < known):
                ratio = None if production_us is None else _figure(latency_us / float(production_us))
                if isinstance(name, str) and _figure(latency_us) is not None:
                    by_model = row.get("model_us") or {}
                    found[name] = {
                        "latency_us": latency_us,
                        "of_production": ratio,
                        **_beside(tail, name),
                        **{f"{model}_us": _figure(by_model.get(model)) for model in _MODELS},
                    }
    except FormatError as error:
        warnings.append(str(error))
    except (ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError, RecursionError, OSError) as error:
        warnings.append(f"{run.evaluation_file}: is no evaluation ({error!r:.80}); it is passed over")
    return found


def _beside(tail: Tail, name: str) -> dict[str, float | None]:
    """Returns the best mapping's latency by cost model, and the ratio of the best of XLA's flags to production."""
    names = (*(f"{model}_us" for model in _MODELS), "flags_of_production")
    return {key: _figure(tail.last.get(f"best/{name}/{key}")) for key in names}


def _rates(tail: Tail) -> dict[str, float | None]:
    if not tail.last:
        return {"updates_per_s": None, "moves_per_s": None, "window_s": None}
    if tail.window_s <= 0:
        named = {"updates_per_s": "learner/steps_per_s", "moves_per_s": "play/moves_per_s"}
        return {**{name: _figure(tail.last.get(key)) for name, key in named.items()}, "window_s": None}
    return {
        "updates_per_s": tail.grown("step") / tail.window_s,
        "moves_per_s": tail.grown("play/moves") / tail.window_s,
        "window_s": tail.window_s,
    }


def _waits(config: Mapping[str, Any], tail: Tail) -> Waits:
    # With a single line of figures, the window is the whole run.
    seconds = tail.window_s if tail.window_s > 0 else 60 * number(tail.last, "minutes")
    actors = max(1.0, _number(config, "", "actors", 1))

    def share(name: str, workers: float) -> float:
        waited = tail.grown(name) if tail.window_s > 0 else number(tail.last, name)
        return min(1.0, waited / seconds / workers) if seconds > 0 else 0.0

    replay = _replay(config, tail)
    place = None
    ratio, buffer = replay["samples_per_insert_wanted"], _number(config, "replay", "error_buffer", 0.0)
    if ratio is not None and buffer > 0 and replay["inserts"] is not None and replay["min_size"] is not None:
        ahead = (replay["inserts"] - replay["min_size"]) * ratio - (replay["samples"] or 0)
        place = min(1.0, max(0.0, (ahead / buffer + 1) / 2))
    return Waits(
        one_process=config.get("topology") != "ray",
        playing=_figure(tail.last.get("play/time_share")),
        learner=share("blocked/learner_s", 1),
        actors=share("blocked/actors_s", actors),
        size=replay["size"],
        min_size=replay["min_size"],
        place=place,
    )


def _by_cause(tail: Tail) -> dict[str, dict[str, float]]:
    """Returns the seconds that each role has waited since the run began, by cause."""
    found: dict[str, dict[str, float]] = {}
    for name, value in tail.last.items():
        if name.startswith("blocked/") and name.endswith("_s"):
            role, _, cause = name.removeprefix("blocked/").removesuffix("_s").partition("_")
            found.setdefault(role, {})[cause or "replay"] = _figure(value) or 0.0
    return found


def _replay(config: Mapping[str, Any], tail: Tail) -> dict[str, Any]:
    def count(value: Any) -> int | None:
        figure = _figure(value)
        return None if figure is None else int(figure)

    settings = config.get("replay")
    settings = settings if isinstance(settings, dict) else {}
    return {
        **{name: count(tail.last.get(f"replay/{name}")) for name in ("size", "inserts", "samples")},
        **{name: count(settings.get(name)) for name in ("capacity", "min_size")},
        "samples_per_insert": _figure(tail.last.get("replay/samples_per_insert")),
        "samples_per_insert_wanted": _figure(settings.get("samples_per_insert")),
    }


def _last_line(path: Path) -> str | None:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_BYTES))
            lines = file.read(_LOG_BYTES).decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return None
    return lines[-1] if lines else None


def _age(now: float, then: Any) -> float | None:
    figure = _figure(then)
    return None if figure is None else max(0.0, now - figure)


def _number(config: Mapping[str, Any], section: str, name: str, default: float) -> float:
    values = config.get(section) if section else config
    figure = _figure(values.get(name)) if isinstance(values, dict) else None
    return default if figure is None else figure


def _figure(value: Any) -> float | None:
    # The limit, far above any figure, keeps sums and whole numbers finite.
    return value if type(value) in (int, float) and abs(value) < 1e300 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
