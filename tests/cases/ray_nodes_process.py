"""A Ray cluster of several raylets on this machine, in a process of its own, which ends it when its input ends.

Called as `python ray_nodes_process.py JSON`, a list of the arguments of `Cluster.add_node`, the head's first; answers
with a line of JSON: `address`, and `dashboard` where the head has one.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def ray_nodes(nodes: list[dict[str, Any]], log: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Yields the process and its answer; the cluster ends with the context."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__, json.dumps(nodes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = (line for line in process.stdout if line.startswith('{"address"'))
        yield process, json.loads(next(lines))
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def main() -> None:
    """Serves until standard input ends."""
    from ray.cluster_utils import Cluster

    head, *others = json.loads(sys.argv[1])
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for node in others:
        cluster.add_node(**node)
    cluster.wait_for_nodes()
    assert cluster.head_node is not None
    print(json.dumps({"address": cluster.address, "dashboard": cluster.head_node.webui_url or ""}), flush=True)
    sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
