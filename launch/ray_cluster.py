"""The Ray cluster that a run uses: started here for it alone, or joined."""

import importlib
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..env.errors import UserError
from ..version import VERSION
from .config import TrainConfig

AUTO = "auto"
_CONNECT_TIMEOUT_S = 10.0
_NODE_TIMEOUT_S = 120.0
# Parameters are the only large objects: a few versions of a few megabytes.
_OBJECT_STORE_BYTES = 300 * 2**20
_NAMESPACE = "mallocmuzero"


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Attributes:
      local: everything runs on this machine.
      host: name under which the cluster's processes reach this machine.
    """

    local: bool
    host: str


def import_ray() -> ModuleType:
    """Returns the `ray` module. Raises UserError if it is not installed."""
    # Read on import; Ray would otherwise hide accelerators from workers that ask for none, and warn about it.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    # A cluster that is started for a training run tells nobody about it.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError(
            f"the topology ray needs Ray ({error}): `pip install mallocmuzero[cluster]`, or --topology process"
        ) from error


@contextmanager
def cluster(config: TrainConfig) -> Iterator[Cluster]:
    """Starts or joins a cluster; on leaving, shuts down or leaves it.

    Raises:
      UserError: nothing answers at the address, or a node has other versions.
    """
    ray = import_ray()
    address = config.ray.address
    if address is not None:
        _check_address(address)
    _start(ray, config)
    try:
        if address is not None:
            _check_nodes(ray)
        nodes = [node for node in ray.nodes() if node["Alive"]]
        local = len(nodes) == 1
        host = "localhost" if local else ray.util.get_node_ip_address()
        yield Cluster(local, host)
    finally:
        ray.shutdown()


def _start(ray: ModuleType, config: TrainConfig) -> None:
    options: dict[str, Any] = {"namespace": _NAMESPACE, "logging_level": "ERROR", "log_to_driver": False}
    if config.ray.address is None:
        settings = config.ray
        wanted = config.actors * settings.actor_cpus + settings.learner_cpus + settings.evaluator_cpus
        options |= {
            # Not None, which would follow the environment to a running cluster.
            "address": "local",
            # Shares of a machine, not a limit: a small machine shall run what was asked for, slowly.
            "num_cpus": max(os.cpu_count() or 1, int(-(-wanted // 1))),
            "object_store_memory": _OBJECT_STORE_BYTES,
            "include_dashboard": False,
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
    """Raises UserError unless a gRPC server answers there; Ray itself would try for minutes."""
    if address == AUTO:
        address = os.environ.get("RAY_ADDRESS", AUTO)
        if address == AUTO:
            return  # Ray looks for a cluster on this machine, and says at once if there is none.
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


def _versions() -> dict[str, str]:
    """The versions that must agree between nodes. Runs on each of them."""
    import jax
    import numpy

    return {
        "Python": ".".join(map(str, sys.version_info[:2])),
        "mallocmuzero": VERSION,
        "jax": jax.__version__,
        "numpy": numpy.__version__,
    }


def _check_nodes(ray: ModuleType) -> None:
    """Raises UserError unless every node has this process's versions."""
    ours = _versions()
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(_versions)
    calls = {
        node["NodeManagerAddress"]: task.options(
            num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False)
        ).remote()
        for node in ray.nodes()
        if node["Alive"]
    }
    for address, call in calls.items():
        try:
            theirs = ray.get(call, timeout=_NODE_TIMEOUT_S)
        except ray.exceptions.GetTimeoutError as error:
            raise UserError(
                f"Ray node {address}: does not answer in {_NODE_TIMEOUT_S:.0f} s; check the node"
            ) from error
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UserError(
                f"Ray node {address}: cannot run mallocmuzero ({reason}); install mallocmuzero {VERSION} there"
            ) from error
        for name, version in ours.items():
            if theirs[name] != version:
                raise UserError(
                    f"Ray node {address}: has {name} {theirs[name]}, this machine {version}; install the same on both"
                )
