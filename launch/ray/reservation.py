"""Reserves room on the driver's node for the replay servers, which Ray does not manage.

A Ray process holds the reservation and imports this file, so nothing heavy belongs here.
"""

from contextlib import ExitStack, suppress

from ...env.errors import UserError
from ..config.ray import REPLAY, RayConfig, asked
from .cluster import import_ray


class Reservation:
    """A Ray actor that keeps processors and memory of a node free for a process that Ray does not manage."""

    def ready(self) -> None:
        """Returns once the reservation holds."""


def reserve(settings: RayConfig, stack: ExitStack) -> None:
    """Reserves on this node what the replay asks for, until `stack` ends; nothing if it asks for nothing.

    To be called before any worker starts, since workers may take the last of the node.

    Raises:
      UserError: this node has too little, or others took it.
    """
    ray, options = import_ray(), settings.options(REPLAY)
    if not asked(options):
        return
    node = ray.get_runtime_context().get_node_id()
    strategy = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
    holder = ray.remote(Reservation).options(**options, scheduling_strategy=strategy).remote()
    try:
        ray.get(holder.ready.remote(), timeout=settings.start_timeout_s)
    except (ray.exceptions.GetTimeoutError, ray.exceptions.RayError) as error:
        ray.kill(holder)
        raise UserError(
            f"this node cannot keep ray.replay_cpus = {settings.replay_cpus:g} and ray.replay_memory_gb = "
            f"{settings.replay_memory_gb:g} free for the replay; ask for less, or start the run on a larger node"
        ) from error

    def release() -> None:
        with suppress(ray.exceptions.RayError):
            ray.kill(holder)

    stack.callback(release)
