"""Model of throughput: each part of a run carries some moves per second, and the slowest part limits the run.

Symbols: `n` actors, `m` processor seconds per move, `P` moves between segments, `R` samples per insert, `B` batch,
`u` seconds per update, `K` replay servers.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Setup:
    """Machines and configuration of a run.

    Attributes:
      actor_moves_per_s: moves of one actor alone.
      updates_per_s: updates of the learner alone.
      replay_cores: processors for each server on the machine of the replay.
      servers: number of replay servers.
      bytes_per_s: network speed of the machines of replay and learner.
      actors_per_node: a version of the parameters goes to a node once.
      batch_size, samples_per_insert, segment_period, slice_moves, publish_period: see the configuration.
    """

    actor_moves_per_s: float
    updates_per_s: float
    replay_cores: float = 8.0
    servers: int = 1
    bytes_per_s: float = 1.25e9
    actors_per_node: int = 16
    batch_size: int = 128
    samples_per_insert: float = 4.0
    segment_period: int = 4
    slice_moves: int = 128
    publish_period: int = 10


def limits(costs: dict[str, float], setup: Setup, actors: int) -> dict[str, float]:
    """Returns the moves per second that each part can carry."""
    period, ratio = setup.segment_period, setup.samples_per_insert
    server_s = (costs["insert_server_s"] + ratio * costs["sample_server_s"]) / period
    wire_bytes = (costs["insert_bytes"] + ratio * costs["sample_bytes"]) / period
    # Parameters leave the learner's machine once per node and version; versions come with updates, updates with moves.
    updates_per_move = ratio / period / setup.batch_size
    nodes = -(-actors // setup.actors_per_node)
    broadcast_bytes = nodes * costs["parameter_bytes"] * updates_per_move / setup.publish_period
    return {
        "actors": actors * setup.actor_moves_per_s,
        "learner": setup.updates_per_s / updates_per_move,
        "replay processor": setup.servers * setup.replay_cores / server_s,
        "replay network": setup.servers * setup.bytes_per_s / wire_bytes,
        "broadcast": setup.bytes_per_s / broadcast_bytes,
        "driver": setup.slice_moves / costs["call_s"],
    }


def throughput(costs: dict[str, float], setup: Setup, actors: int) -> tuple[float, str]:
    """Returns moves per second of the whole, and the limiting part. Broadcast limits nothing: actors skip versions."""
    carried = limits(costs, setup, actors)
    del carried["broadcast"]
    least = min(carried, key=lambda name: carried[name])
    return carried[least], least


def versions_share(costs: dict[str, float], setup: Setup, actors: int) -> float:
    """Returns the share of published versions that the network of the learner carries to every node."""
    return min(1.0, limits(costs, setup, actors)["broadcast"] / throughput(costs, setup, actors)[0])


def on_one_machine(costs: dict[str, float], setup: Setup, actors: int, cores: float) -> tuple[float, str]:
    """Returns the same with light actors and a light learner, where all parts share `cores` processors."""
    carried = limits(costs, setup, actors)
    for name in ("replay processor", "replay network", "broadcast", "driver"):
        del carried[name]
    period, ratio = setup.segment_period, setup.samples_per_insert
    per_segment = costs["insert_server_s"] + costs["insert_client_s"]
    per_segment += ratio * (costs["sample_server_s"] + costs["sample_client_s"])
    carried["processors"] = cores / (per_segment / period + costs["call_s"] / setup.slice_moves)
    least = min(carried, key=lambda name: carried[name])
    return carried[least], least


def breaks(costs: dict[str, float], setup: Setup, most: int = 100_000) -> list[tuple[str, int]]:
    """Returns the least number of actors that each part cannot carry, were it alone with the actors; ascending."""
    found: dict[str, Any] = {}
    for name in limits(costs, setup, 1):
        if name == "actors":
            continue
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            carried = limits(costs, setup, middle)
            low, high = (low, middle) if carried[name] < carried["actors"] else (middle + 1, high)
        found[name] = low
    return sorted(found.items(), key=lambda item: item[1])
