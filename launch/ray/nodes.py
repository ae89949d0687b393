"""Checks of a Ray cluster's nodes before a run begins: their number, their versions, their resources."""

import importlib.metadata
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from ...env.errors import UserError
from ...version import VERSION
from ..config.ray import ROLES, RayConfig, asked, totals

_ANSWER_TIMEOUT_S = 120.0
_LOOK_S = 1.0
# Packages whose objects or messages travel between nodes.
_PACKAGES = ("jax", "jaxlib", "numpy", "flax", "optax", "ray", "dm-reverb", "tensorflow-cpu")
_MISSING = "not installed"


def versions() -> dict[str, str]:
    """Returns the versions that must agree between nodes, by name. Runs on each node."""
    found = {"Python": ".".join(map(str, sys.version_info[:2])), "mallocmuzero": VERSION}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = _MISSING
    return found


def check_alike(ours: Mapping[str, str], theirs: Mapping[str, Mapping[str, str]]) -> None:
    """Compares the versions of nodes with those of this process.

    Args:
      ours: versions of this process, by name.
      theirs: versions of each node, by its address.

    Raises:
      UserError: versions differ; the message names every such node.
    """
    differing = []
    for address, report in theirs.items():
        names = [name for name, version in ours.items() if report.get(name, _MISSING) != version]
        if names:
            words = ", ".join(f"{name} {report.get(name, _MISSING)} (here {ours[name]})" for name in names)
            differing.append(f"{address} has {words}")
    if differing:
        raise UserError(
            f"Ray nodes differ from this machine: {'; '.join(differing)}; install the same everywhere, or use one image"
        )


def alive(ray: ModuleType) -> list[dict[str, Any]]:
    """Returns the entries of `ray.nodes` that are alive."""
    return [node for node in ray.nodes() if node["Alive"]]


def await_nodes(ray: ModuleType, wanted: int, timeout_s: float, stop: Callable[[], bool] = lambda: False) -> None:
    """Waits until `wanted` nodes are alive. Raises UserError after `timeout_s`, or if `stop` returns true."""
    deadline = time.monotonic() + timeout_s
    while (found := len(alive(ray))) < wanted:
        if stop() or time.monotonic() > deadline:
            raise UserError(
                f"the Ray cluster has {found} of {wanted} nodes after {timeout_s:.0f} s; start the others, or lower "
                "ray.nodes (ray.start_timeout_s is how long to wait)"
            )
        time.sleep(_LOOK_S)


def check_nodes(ray: ModuleType) -> None:
    """Raises UserError unless every node can run mallocmuzero and has the versions of this process."""
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    task = ray.remote(versions)
    calls = {
        f"{node['NodeManagerAddress']} ({node['NodeID'][:8]})": task.options(
            num_cpus=0, scheduling_strategy=strategy(node["NodeID"], soft=False)
        ).remote()
        for node in alive(ray)
    }
    reports = {}
    for address, call in calls.items():
        try:
            reports[address] = ray.get(call, timeout=_ANSWER_TIMEOUT_S)
        except ray.exceptions.GetTimeoutError as error:
            raise UserError(
                f"Ray node {address}: does not answer in {_ANSWER_TIMEOUT_S:.0f} s; check the node"
            ) from error
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise UserError(
                f"Ray node {address}: cannot run mallocmuzero ({reason}); install mallocmuzero {VERSION} there"
            ) from error
    check_alike(versions(), reports)


def capacity_warnings(nodes: Sequence[Mapping[str, Any]], config: RayConfig, actors: int) -> list[str]:
    """Returns a line for each role that fits on no node; if there is none, a line if all roles together do not fit."""
    lines = []
    for role in ROLES:
        wanted = asked(config.options(role))
        if not any(all(node["Resources"].get(name, 0.0) >= wanted[name] for name in wanted) for node in nodes):
            lines.append(f"no node has what one {role} asks for, {_words(wanted)}; it waits until one joins")
    total = totals(config, actors)
    there = {name: sum(node["Resources"].get(name, 0.0) for node in nodes) for name in total}
    short = [name for name, amount in total.items() if there[name] < amount]
    if short and not lines:
        words = ", ".join(f"{_words({name: there[name]})} of {_words({name: total[name]})}" for name in short)
        lines.append(f"the cluster has {words} that all roles ask for; workers that do not fit wait for it")
    return lines


def _words(amounts: Mapping[str, float]) -> str:
    return ", ".join(
        f"{amount / 1e9:g} GB memory" if name == "memory" else f"{amount:g} {name}" for name, amount in amounts.items()
    )
