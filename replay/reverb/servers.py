"""The replay servers of a run, on one machine: each holds its share of the table, all are handled as one."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from ..config import ReplayConfig
from ..segment import SegmentSpec
from .server import ReplayServer

T = TypeVar("T")
R = TypeVar("R")


class ReplayServers:
    """Starts `config.servers` servers at once and waits until all answer.

    Args:
      config: settings of all servers together (`ReplayConfig.share`).
      spec: sizes of steps and segments.
      host: as in `ReplayServer`.
      restore_from: a checkpoint folder of as many servers, or None for empty tables.

    Attributes:
      each: the servers, in order.

    Raises:
      FormatError, UserError: as `ReplayServer`.
    """

    def __init__(
        self,
        config: ReplayConfig,
        spec: SegmentSpec,
        *,
        host: str = "localhost",
        restore_from: str | PathLike[str] | None = None,
    ) -> None:
        def start(index: int) -> ReplayServer:
            folder = None if restore_from is None else shard_folder(restore_from, config, index)
            return ReplayServer(config.share(), spec, host=host, restore_from=folder)

        self.each: list[ReplayServer] = []
        with ExitStack() as started:
            started.callback(self.stop)
            with ThreadPoolExecutor(config.servers) as pool:
                calls = [pool.submit(start, index) for index in range(config.servers)]
            for call in calls:
                if call.exception() is None:
                    self.each.append(call.result())
            for call in calls:
                call.result()
            started.pop_all()

    @property
    def addresses(self) -> list[str]:
        """`host:port` of each server."""
        return [server.address for server in self.each]

    def address_of(self, actor: int) -> str:
        """`host:port` of the server that an actor writes to."""
        return self.each[actor % len(self.each)].address

    @property
    def alive(self) -> bool:
        """True if the processes of all servers run."""
        return all(server.alive for server in self.each)

    @property
    def end(self) -> str:
        """The way in which the first server that is not alive ended (`ReplayServer.end`)."""
        return next((server.end for server in self.each if not server.alive), "all are alive")

    @property
    def log(self) -> str:
        """The standard error of the first server that is not alive, or of the first server if all are."""
        dead = [server for server in self.each if not server.alive]
        return (dead or self.each)[0].log

    def stop(self) -> None:
        """Ends all servers."""
        if self.each:
            at_once(ReplayServer.stop, self.each)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def shard_folder(directory: str | PathLike[str], config: ReplayConfig, index: int) -> Path:
    """Returns the folder of one server's part of a checkpoint; `directory` itself if there is only one server."""
    return Path(directory) if config.servers == 1 else Path(directory) / f"server_{index}"


def at_once(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Returns `work` of each item, each on a thread of its own; raises the first error once all are done."""
    with ThreadPoolExecutor(len(items)) as pool:
        calls = [pool.submit(work, item) for item in items]
    return [call.result() for call in calls]
