"""A training run on one page: its parts, who calls whom, and what the run leaves behind.

    configuration --> programs --> session: counters, best mappings, metrics, progress, checkpoints

                  segments            batches               parameters
        actors -------------> replay ----------> learner -----------------> evaluator
           ^                                        |
           +---- parameters, a new version every `schedule.publish_period` updates

Two topologies run the same parts. `process`: one actor, the replay and the learner take turns in this process, and a
run repeats bit for bit. `ray`: actors, learner and evaluator are Ray actors around Reverb servers, and this process
drives them. In both, the replay's rate limiter alone decides who may go on.
"""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import jax

from ...env.errors import UserError
from ...learner.networks.network import Params
from ...learner.update import Update
from ..config.config import RAY, TrainConfig
from ..config.overrides import Overrides
from ..ray.calls import Lost, last_line
from ..ray.cluster import Cluster, cluster, import_ray
from ..ray.driver import Driver
from ..ray.fleet import Fleet
from ..ray.nodes import alive, capacity_warnings
from ..ray.replay_service import ReplayService
from ..ray.reservation import reserve
from ..run.directory import RunDirectory
from ..run.json_file import write_json_file
from ..run.log_file import logging_to
from ..run.url import RunUrl, is_url
from ..session.builders import starting_state
from ..session.compiled import compile_topology_process, training_kernels
from ..session.memory import check_memory
from ..session.opening import check_playable, load_programs, reopen
from ..session.progress import Progress
from ..session.report import finish
from ..session.session import Session
from ..terminal.compiling import Compiling
from ..terminal.stop import StopRequest
from .process import ProcessTrainer

# With more programs, only their number is printed.
_NAMED = 8
Topology = Callable[[Session], Params]


def run_experiment(run_dir: str | Path, overrides: Overrides, *, resume: bool) -> int:
    """Runs `mallocmuzero train`; returns its exit status: 0 at the end, 130 after Ctrl-C, 143 after SIGTERM.

    Args:
      run_dir: folder or URL (`run/url.py`).
      overrides: the settings that were given.
      resume: continue the run in `run_dir`.

    Raises:
      UserError: something given cannot be used, or the run cannot go on; it has saved as much as it could.
    """
    url = RunUrl(str(run_dir)) if is_url(run_dir) else None
    run = RunDirectory(run_dir) if url is None else RunDirectory(url.folder, url.url)
    with ExitStack() as stack:
        # Configuration and programs.
        resumed = None
        if not resume:
            config = overrides.resolve()
            for group, names in overrides.left_out.items():
                print(f"{group} leaves out, since they reserve more memory: {', '.join(names)}", file=sys.stderr)
            if url is None:
                run.check_new()
            else:
                url.check(resume)
            programs = load_programs(config)
            compiled = _compile(config)
            check_playable(config, programs)
        elif url is None:
            run.open()  # Raises if there is no run, before the lock would make a folder.
        else:
            url.check(resume)
        run.lock()
        stack.callback(run.unlock)
        news = None if url is None else url.begin(resume)
        if resume:
            config, programs, resumed = reopen(run, overrides)
            compiled = _compile(config)
        train = _topology(config, compiled, stack)

        # The run directory, and the session that writes to it.
        if resume:
            write_json_file(run.config_file, config.to_json())
        else:
            run.create(config, programs)
        stack.enter_context(logging_to(run.log_file))
        stop = stack.enter_context(StopRequest())
        kept = config.schedule.checkpoints_kept
        with Progress() as progress:
            session = Session(run, config, programs, resumed=resumed, stop=stop, progress=progress)
            stack.callback(session.close)
            if url is not None:
                session.on_saved = partial(url.push_soon, kept)
                stack.callback(url.wait)
            _greet(session, resume, news)

            # Training, which ends with a checkpoint.
            params = train(session)

        # The report: evaluation, best mappings, pictures.
        trained = not stop
        if trained:
            with stop.skipping():
                finish(session, params)
        if url is not None:
            url.end(kept)
        status, step = stop.status, session.counters.step
        if status and trained:
            print(f"the evaluation is skipped; `mallocmuzero evaluate {run.name}` does it later", file=sys.stderr)
        elif status:
            print(
                f"stopped after {step} updates; `mallocmuzero train --run-dir {run.name} --resume` goes on",
                file=sys.stderr,
            )
        elif url is not None:
            print(f"the run, mappings and pictures among it, is at {url.url}")
        return status


def train_in_process(session: Session, update: Update | None = None) -> Params:
    """Trains in this process until the session is finished; saves, and returns the last parameters.

    Turns depend on the replay alone and all randomness on the seed, so runs of equal length are equal, even if one of
    them was killed and resumed.

    Args:
      session: the run.
      update: the learner's update, compiled; None to compile it on the run's clock.
    """
    config = session.config
    trainer = ProcessTrainer(session, update)
    if session.resumed is None and config.schedule.evaluate_period:
        trainer.evaluate()
    session.start()
    while not session.finished:
        if trainer.replay.can_sample(config.learner.batch_size):
            trainer.learn()
        else:
            trainer.play()
        session.replay_stats(trainer.replay.stats())
        session.save_if_due(trainer.save)
        session.report()
    trainer.save()
    return trainer.state.params


def train_on_ray(session: Session, cluster: Cluster) -> Params:
    """Trains on a Ray cluster until the session is finished; saves, ends all workers, and returns the last parameters.

    Raises:
      UserError: the learner or a replay server died; the run has saved as much as it could.
    """
    config, ray = session.config, import_ray()
    # The accelerators belong to the learner's process.
    jax.config.update("jax_platforms", "cpu")
    with ExitStack() as servers, ExitStack() as workers:  # workers end first
        try:
            session.doing("starting replay, learner and actors")
            for line in capacity_warnings(alive(ray), config.ray, config.actors):
                session.say(line)
            reserve(config.ray, servers)
            fleet = Fleet(session, workers)
            replay = ReplayService(config, cluster, session.resumed, servers)
            state = jax.device_get(starting_state(config, session.network, session.resumed))
            publication = fleet.begin(replay.servers, state)
            driver = Driver(session, replay=replay, fleet=fleet, publication=publication)
            session.doing("")
        except Lost as lost:
            raise UserError(f"{lost} before training began; {session.run.log_file} says more") from lost
        try:
            driver.begin()
            while not session.finished:
                driver.turn()
                session.save_if_due(driver.begin_save)
                driver.finish_save()
                session.report()
            return driver.end()
        except Lost as lost:
            raise driver.rescue(lost) from lost
        except ray.exceptions.RayError as error:
            raise driver.rescue(Lost("Ray cluster", f"died ({last_line(error)})")) from error


def _compile(config: TrainConfig) -> Update | None:
    """Compiles what this process runs, before anything is written; returns the update, if it is this process's own.

    Raises:
      UserError: it does not fit into the memory of this machine.
    """
    check_memory(config)
    with Compiling() as compiling:
        compiling.kernels(training_kernels(config))
        if config.topology == RAY:
            return None  # its workers compile search and update, and then report that they are ready
        with compiling.networks("search and update"):
            return compile_topology_process(config)


def _topology(config: TrainConfig, update: Update | None, stack: ExitStack) -> Topology:
    """Returns the function that trains a session. For the topology `ray`, joins the cluster until `stack` ends."""
    if config.topology == RAY:
        joined = stack.enter_context(cluster(config))
        return lambda session: train_on_ray(session, joined)
    return partial(train_in_process, update=update)


def _greet(session: Session, resume: bool, news: str | None) -> None:
    """Prints what the user should know before training begins."""
    if news is not None:
        session.say(news)
    run = session.run
    session.say(f"curves: tensorboard --logdir {run.tensorboard}; live: mallocmuzero status {run.path} --watch")
    unpriced = session.judged_by_msa_alone
    if len(unpriced) > _NAMED:
        session.say(f"`cycles` cannot price {len(unpriced)} programs, so `msa` alone judges them")
    else:
        for name in unpriced:
            session.say(f"{name}: has no cycle table, so `msa` alone judges it; `capture --variants` would add one")
    if session.resumed is not None and (reached := session.limit_reached) is not None:
        session.say(f"{session.run.name}: {reached}: nothing is left to train; with a larger number --resume trains on")
    elif session.resumed is not None:
        session.say(f"{session.run.name}: going on from update {session.counters.step}")
    elif resume:
        session.say(f"{session.run.name}: there is no checkpoint yet; starting from the beginning")
