"""Shares the tests out between processes, file by file, and keeps what JAX compiles in pytest's cache folder.

Tests, and the commands that they start, compile the same networks over and over. Helpers of tests lie in `cases`, which
pytest puts on the path (`pythonpath` in pyproject.toml).
"""

import os

import pytest

# Tests that start Ray clusters take longest: they begin first, one after the other, in one process.
_CLUSTERS = frozenset(f"test_{name}.py" for name in ("ray_cluster", "ray_nodes", "ray_topology", "slurm"))


def pytest_configure(config: pytest.Config) -> None:
    # Ray's workers are polite otherwise, and starve beside other tests; it keeps idle ones that no run here takes.
    os.environ.setdefault("RAY_worker_niceness", "0")
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
    if not hasattr(config, "cache"):  # pytest's cache provider is switched off
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _CLUSTERS)
    for item in items:
        name = item.path.name
        item.add_marker(pytest.mark.xdist_group("clusters" if name in _CLUSTERS else name))
