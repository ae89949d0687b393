"""The address at which the cluster's processes reach this machine."""

import os
from types import SimpleNamespace

import pytest

from mallocmuzero.launch.config.config import RAY, TrainConfig
from mallocmuzero.launch.config.ray import RayConfig
from mallocmuzero.launch.ray import cluster as ray_cluster


@pytest.mark.parametrize(("address", "host"), [(None, "localhost"), ("auto", "10.1.2.3")])
def test_a_joined_cluster_of_one_node_may_grow(monkeypatch: pytest.MonkeyPatch, address: str | None, host: str) -> None:
    calls = []
    ray = SimpleNamespace(
        init=lambda **options: calls.append(options["address"]),
        shutdown=lambda: calls.append("shutdown"),
        nodes=lambda: [{"Alive": True}],
        util=SimpleNamespace(get_node_ip_address=lambda: "10.1.2.3"),
    )
    # A copy: what is set for Ray is of this test alone.
    variables = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    monkeypatch.setattr(os, "environ", variables)
    monkeypatch.setattr(ray_cluster, "import_ray", lambda: ray)
    monkeypatch.setattr(ray_cluster, "check_nodes", lambda ray: None)
    config = TrainConfig(workloads=("tiny",), topology=RAY, ray=RayConfig(address=address))
    with ray_cluster.cluster(config) as joined:
        assert joined.host == host
        assert joined.local == (address is None)
    assert calls == [address or "local", "shutdown"]
    # Alone on a machine, Ray listens on loopback; with others it must not.
    assert variables.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == ("0" if address is None else None)
