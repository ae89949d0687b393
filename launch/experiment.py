"""A training run from its beginning, or from its last checkpoint, to its end."""

import logging
import sys
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from ..actors.self_play.curriculum import MARK, resized
from ..env import workloads
from ..env.errors import FormatError, UserError
from ..env.program.program import Program
from .config.config import RAY, Overrides, TrainConfig, config_from_json
from .run.checkpoints import CONFIG, RunCheckpoints
from .run.directory import RunDirectory
from .run.json_file import read_json_file, write_json_file
from .run.url import RunUrl, is_url
from .stop import StopRequest
from .train.progress import Progress
from .train.session import Resumed, Session

_log = logging.getLogger("mallocmuzero")
# What may be another on resuming: how long, how often, on which machines. The rest is what the run is.
_MAY_CHANGE = ("minutes", "steps", "actors", "schedule.", "ray.")


def train(run_dir: str | Path, overrides: Overrides, resume: bool) -> int:
    """Runs `mallocmuzero train`; returns its exit status: 0 at the end, 130 after Ctrl-C, 143 after SIGTERM.

    Args:
      run_dir: folder or URL (`run_url.py`).
      overrides: the settings that were given.
      resume: go on with the run that is there.

    Raises:
      UserError: something given cannot be used, or the run cannot go on; whatever could be saved has been.
    """
    url = RunUrl(str(run_dir)) if is_url(run_dir) else None
    run = RunDirectory(run_dir) if url is None else RunDirectory(url.folder, url.url)
    with ExitStack() as stack:
        if not resume:
            config = overrides.resolve()
            programs = _load(config)
        elif url is None:
            run.open()  # Before the lock, which would make the folder.
        run.lock()
        stack.callback(run.unlock)
        news = None if url is None else url.begin(resume)
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
            kept = config.schedule.checkpoints_kept
            session = Session(run, config, programs, resumed, stop, progress)
            stack.callback(session.close)
            if url is not None:
                session.on_saved = partial(url.push_soon, kept)
                stack.callback(url.wait)
            if news is not None:
                session.say(news)
            for name in session.judged_by_msa_alone:
                session.say(f"{name}: `cycles` cannot price it, so it is judged by `msa` alone; capture it again")
            if resumed is not None:
                session.say(f"{run.name}: going on from update {session.counters.step}")
            elif resume:
                session.say(f"{run.name}: there is no checkpoint yet; starting from the beginning")
            params = topology(session)
        if stop:
            if url is not None:
                url.end(kept)
            print(
                f"stopped after {session.counters.step} updates; `--run-dir {run.name} --resume` goes on",
                file=sys.stderr,
            )
            return stop.status
        from .train.report import finish

        finish(session, params)
        if url is not None:
            url.end(kept)
            print(f"the run, mappings and pictures among it, is at {url.url}")
        return 0


def _topology(config: TrainConfig, stack: ExitStack):  # type: ignore[no-untyped-def]
    """Returns a function that trains a session and returns the final parameters; what it needs ends with `stack`."""
    if config.topology == RAY:
        from .ray.cluster import cluster
        from .ray.topology import train_on_ray

        joined = stack.enter_context(cluster(config))
        return lambda session: train_on_ray(session, joined)
    from .train.process import train_in_process

    return train_in_process


def _load(config: TrainConfig) -> list[Program]:
    programs = [_program(name) for name in config.workloads]
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


def _program(name: str) -> Program:
    """Reads a workload, or one with another share of fast memory: `NAME@SHARE`."""
    base, mark, share = name.rpartition(MARK)
    if not mark or Path(name).exists():
        return workloads.load(name)
    try:
        value = float(share)
    except ValueError as error:
        raise UserError(f"{name}: {share!r} is no share of fast memory; give NAME{MARK}0.5, say") from error
    return resized(workloads.load(base), value)


def _reopen(run: RunDirectory, overrides: Overrides) -> tuple[TrainConfig, list[Program], Resumed | None]:
    base, manifest = run.open()
    config = overrides.resolve(base)
    for name, value in overrides.changed(base, config).items():
        if not name.startswith(_MAY_CHANGE):
            raise UserError(
                f"{overrides.source(name)}: {name} is {value!r}, but {run.name} was begun with another value; "
                "leave it out, or start a new run"
            )
    checkpoints = RunCheckpoints(run.checkpoints, config.schedule.checkpoints_kept)
    resumed = Resumed(*checkpoints.read()) if checkpoints.numbers() else None
    programs = run.programs(manifest)
    if resumed is not None:
        _check_same_run(run, base, programs, resumed)
    return config, programs, resumed


def _check_same_run(run: RunDirectory, config: TrainConfig, programs: list[Program], resumed: Resumed) -> None:
    """Raises FormatError if the checkpoint was written under another configuration, or of other programs."""
    saved = config_from_json(read_json_file(resumed.folder / CONFIG), str(resumed.folder / CONFIG))
    for name, value in Overrides().changed(saved, config).items():
        if not name.startswith(_MAY_CHANGE):
            raise FormatError(
                f"{run.config_file}: {name} is {value!r}, but not in the last checkpoint: somebody has changed it; "
                f"`cp {resumed.folder / CONFIG} {run.config_file}` puts it back"
            )
    if {program.name: program.sha256 for program in programs} != resumed.manifest.get("programs"):
        raise FormatError(
            f"{run.manifest_file}: field `programs` names other programs than {resumed.folder}; restore the file"
        )


def _log_to(path: Path):  # type: ignore[no-untyped-def]
    """Sends the package's log to a file; returns what ends that."""
    try:
        handler = _LogFile(path, encoding="utf-8")
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
        with suppress(OSError):
            handler.close()

    return end


class _LogFile(logging.FileHandler):
    """A log that a full disk silences, as long as it is full: lines that it did not take come later."""

    def handleError(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.handleError`, which would print a traceback for each line."""
