"""A training run from its beginning, or from its last checkpoint, to its end."""

import logging
import sys
from contextlib import ExitStack
from pathlib import Path

from ..env import workloads
from ..env.errors import UserError
from ..env.program import Program
from .checkpoints import RunCheckpoints
from .config import RAY, Overrides, TrainConfig
from .progress import Progress
from .run_directory import RunDirectory, write_json_file
from .session import Resumed, Session
from .stop import StopRequest

_log = logging.getLogger("mallocmuzero")
# What may be another on resuming: how long, how often, on which machines. The rest is what the run is.
_MAY_CHANGE = ("minutes", "steps", "actors", "schedule.", "ray.")


def train(run_dir: Path, overrides: Overrides, resume: bool) -> int:
    """Runs `mallocmuzero train`; returns its exit status: 0 at the end, 130 after Ctrl-C, 143 after SIGTERM.

    Raises:
      UserError: something given cannot be used, or the run cannot go on; whatever could be saved has been.
    """
    run = RunDirectory(run_dir)
    with ExitStack() as stack:
        if resume:
            run.open()  # Before the lock, which would make the folder.
        else:
            config = overrides.resolve()
            programs = _load(config)
        run.lock()
        stack.callback(run.unlock)
        resumed = None
        if resume:
            config, programs, resumed = _reopen(run, overrides)
        topology = _topology(config, stack)
        if resume:
            write_json_file(run.config_file, config.to_json())
        else:
            run.create(config, programs)
        stack.callback(_log_to(run.log_file))
        stop = stack.enter_context(StopRequest())
        with Progress() as progress:
            session = Session(run, config, programs, resumed, stop, progress)
            stack.callback(session.close)
            for name in session.judged_by_msa_alone:
                session.say(f"{name}: `cycles` cannot price it, so it is judged by `msa` alone; capture it again")
            if resumed is not None:
                session.say(f"{run.path}: going on from update {session.counters.step}")
            elif resume:
                session.say(f"{run.path}: there is no checkpoint yet; starting from the beginning")
            params = topology(session)
        if stop:
            print(
                f"stopped after {session.counters.step} updates; `--run-dir {run.path} --resume` goes on",
                file=sys.stderr,
            )
            return stop.status
        from .report import finish

        finish(session, params)
        return 0


def _topology(config: TrainConfig, stack: ExitStack):  # type: ignore[no-untyped-def]
    """Returns a function that trains a session and returns the final parameters; what it needs ends with `stack`."""
    if config.topology == RAY:
        from .ray_cluster import cluster
        from .ray_topology import train_on_ray

        joined = stack.enter_context(cluster(config))
        return lambda session: train_on_ray(session, joined)
    from .process import train_in_process

    return train_in_process


def _load(config: TrainConfig) -> list[Program]:
    programs = [workloads.load(name) for name in config.workloads]
    names = [program.name for program in programs]
    for name, program in zip(config.workloads, programs, strict=True):
        if names.count(program.name) > 1:
            raise UserError(f"{name}: a second program called {program.name!r}; give each its own name")
        if Path(program.name).name != program.name:
            raise UserError(
                f"{name}: the program's name {program.name!r} cannot be a file name; capture it under another"
            )
        if config.actor.game(program).done:
            raise UserError(f"{name}: leaves nothing to decide, so there is nothing to learn; choose another workload")
    return programs


def _reopen(run: RunDirectory, overrides: Overrides) -> tuple[TrainConfig, list[Program], Resumed | None]:
    base, manifest = run.open()
    config = overrides.resolve(base)
    for name, value in overrides.changed(base, config).items():
        if not name.startswith(_MAY_CHANGE):
            raise UserError(
                f"{overrides.source(name)}: {name} is {value!r}, but {run.path} was begun with another value; "
                "leave it out, or start a new run"
            )
    checkpoints = RunCheckpoints(run.checkpoints, config.schedule.checkpoints_kept)
    resumed = Resumed(*checkpoints.read()) if checkpoints.numbers() else None
    return config, run.programs(manifest), resumed


def _log_to(path: Path):  # type: ignore[no-untyped-def]
    """Sends the package's log to a file; returns what ends that."""
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error}); free space or rights") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    previous = _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    # What is worth showing is shown by `Progress`; other libraries put handlers on the root logger.
    _log.propagate = False

    def end() -> None:
        _log.removeHandler(handler)
        _log.setLevel(previous[0])
        _log.propagate = previous[1]
        handler.close()

    return end
