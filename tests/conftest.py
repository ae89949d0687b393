"""Makes the plain modules of this folder (`programs`) importable from every test: pytest puts it on the path.

Shares the tests out between two processes, file by file. What JAX compiles is kept in pytest's cache folder: tests and
the commands that they start compile the same networks over and over.
"""

import os

import pytest

# What starts Ray clusters runs in one process, one after the other, and begins first: it takes longest.
_CLUSTERS = frozenset(
    f"test_{name}.py" for name in ("faults", "listening", "ray_cluster", "ray_nodes", "ray_topology", "slurm")
)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "cache"):  # without pytest's cache provider
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _CLUSTERS)
    for item in items:
        name = item.path.name
        item.add_marker(pytest.mark.xdist_group("clusters" if name in _CLUSTERS else name))
