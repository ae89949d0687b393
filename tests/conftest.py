"""Shares the tests out between processes, by files and groups of files, and spares them what repeats: compilation,
optimisation.

Tests, and the commands that they start, compile the same networks over and over: they keep what JAX compiles in
pytest's cache folder. Helpers of tests lie in `cases`, which pytest puts on the path (`pythonpath` in pyproject.toml).
"""

import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

from mallocmuzero.launch.start.collector import collect_seldom

# Groups of files, by their names without `test_`: each is run in one process.
_GROUPS = {
    # Tests that start large Ray clusters take longest: they begin first, one after the other.
    "clusters": ("ray_cluster", "ray_nodes", "ray_topology"),
    # Runs with equal networks, which are traced, compiled and loaded once for all of them.
    "runs": (
        *("process_topology", "resume", "status_of_runs", "command_line", "json_contracts", "skipping"),
        *("train_command", "run_url"),
    ),
    # Reverb imports TensorFlow, which takes seconds.
    "replay": ("sharded", "server", "replay_contract"),
}
# The longest begin first, so that none of them is left over for one process at the end. The SLURM script starts a small
# cluster: in the process of the large ones it would be what all wait for.
_ORDER = (
    *_GROUPS["clusters"],
    "slurm",
    *_GROUPS["runs"],
    *("needs", "diagnose_command", "learning", "update", "solve"),
    *_GROUPS["replay"],
    "prepare",
)


def pytest_configure(config: pytest.Config) -> None:
    # Ray's workers are polite otherwise, and starve beside other tests; it keeps idle ones that no run here takes.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    # As in our own processes: most objects of a test process are those of libraries.
    collect_seldom()
    # Hundreds of processes import the same modules.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The networks here are small: compiling them well takes longer than running them. The real compiler, where a user
    # names one, compiles as it does without tests.
    real = bool(os.environ.get("MALLOCMUZERO_CAPTURE_PYTHON"))
    if not real:
        os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    if not hasattr(config, "cache"):  # pytest's cache provider is switched off
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2" if real else "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    order = {name: place for place, name in enumerate(_ORDER)}
    items.sort(key=lambda item: order.get(_name(item.nodeid), len(order)))


# `--dist loadgroup` of xdist 3.8 does nothing with pytest 9.2, silently: https://github.com/pytest-dev/pytest-xdist/issues/1386
@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    group_of = {name: group for group, names in _GROUPS.items() for name in names}

    class Groups(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of.get(_name(nodeid), nodeid.partition("::")[0])

    return Groups(config, log)


def _name(nodeid: str) -> str:
    """Returns the name of a test's file, without `test_`."""
    return PurePath(nodeid.partition("::")[0]).stem.removeprefix("test_")


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Has JAX compile with all optimisations, for tests that run a network long enough."""
    import jax

    name = "jax_disable_most_optimizations"
    jax.config.update(name, False)
    yield
    jax.config.update(name, os.environ.get(name.upper()) == "1")
