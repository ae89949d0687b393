"""The Ray cluster of a run: started on this machine for it alone, or joined at an address."""

import importlib
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...env.errors import UserError
from ..config.ray import BUILT_IN, totals
from .nodes import await_nodes, check_nodes

if TYPE_CHECKING:  # Small Ray processes import this file, and a configuration loads JAX.
    from ..config.config import TrainConfig

AUTO = "auto"
_CONNECT_TIMEOUT_S = 10.0
# Parameters are the only large objects: a few versions of a few megabytes each.
_OBJECT_STORE_BYTES = 300 * 2**20
_NAMESPACE = "mallocmuzero"


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Attributes:
      local: the cluster was started for this run, on this machine.
      host: name under which the cluster's processes reach this machine.
    """

    local: bool
    host: str


def import_ray() -> ModuleType:
    """Returns the `ray` module. Raises UserError if it is not installed."""
    # Ray reads both on import. Without the first, it hides accelerators from workers that ask for none, and warns.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # Without the second, a cluster that is started here reports usage statistics.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            f"the topology ray needs Ray ({error}): `pip install mallocmuzero[cluster]`, or --topology process"
        ) from error


@contextmanager
def cluster(config: "TrainConfig") -> Iterator[Cluster]:
    """Starts or joins a cluster; on exit, shuts it down or leaves it.

    Raises:
      UserError: nothing answers at the address, or a node has other versions.
    """
    address = config.ray.address
    if address is None:
        # Ray, and every process that it starts, reads this on import. At 0 Ray listens on the loopback device alone,
        # its default on the systems in the name.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    else:
        _check_address(address)
    ray = import_ray()
    _start(ray, config)
    try:
        if address is not None:
            await_nodes(ray, config.ray.nodes, config.ray.start_timeout_s)
            check_nodes(ray)
        # A joined cluster may gain nodes later, which could not reach this machine as `localhost`.
        local = address is None
        host = "localhost" if local else ray.util.get_node_ip_address()
        yield Cluster(local, host)
    finally:
        ray.shutdown()


def _start(ray: ModuleType, config: "TrainConfig") -> None:
    options: dict[str, Any] = {"namespace": _NAMESPACE, "logging_level": "ERROR", "log_to_driver": False}
    if config.ray.address is None:
        total = totals(config.ray, config.actors)
        options |= {
            # None would join a running cluster that the environment names.
            "address": "local",
            # At least what the roles ask for: a small machine runs them too, slowly.
            "num_cpus": max(os.cpu_count() or 1, math.ceil(total.pop("CPU", 0.0))),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
            "resources": {name: amount for name, amount in total.items() if name not in BUILT_IN},
        }
    else:
        options["address"] = config.ray.address
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        if config.ray.address is None:
            raise UserError(f"Ray cannot be started on this machine: {reason}") from error
        raise UserError(
            f"--address {config.ray.address}: {reason}; is the cluster running, and where it asks for a token "
            "(RAY_AUTH_MODE=token), has this machine been given it (Ray's documentation, token authentication)?"
        ) from error


def _check_address(address: str) -> None:
    """Raises UserError unless a gRPC server answers at the address; Ray itself would try for minutes."""
    if address == AUTO:
        address = os.environ.get("RAY_ADDRESS", AUTO)
        if address == AUTO:
            return  # Ray looks for a cluster on this machine, and fails at once if there is none.
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or "/" in address:
        raise UserError(f"--address {address}: is not `auto` or HOST:PORT, e.g. 10.0.0.1:6379")
    try:
        with socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S):
            pass
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--address {address}: no Ray cluster answers ({error}); is `ray start --head` running?"
        ) from error
    if os.environ.get("RAY_USE_TLS", "0") == "1":
        return
    grpc: Any = importlib.import_module("grpc")
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_CONNECT_TIMEOUT_S)
        except grpc.FutureTimeoutError as error:
            raise UserError(
                f"--address {address}: something listens there, but it is no Ray cluster; give the head's port (6379)"
            ) from error
