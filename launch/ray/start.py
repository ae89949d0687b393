"""Starts the Ray topology's workers, each with what it asks for and an environment of its own."""

import os
from types import ModuleType
from typing import Any

from ...env.errors import UserError
from ..config.ray import ACTOR, LEARNER, REPLAY, RayConfig, asked


def start_worker(ray: ModuleType, settings: RayConfig, role: str, worker: type, *arguments: Any) -> Any:
    """Returns a new Ray actor of the class `worker`. Failures show in its first call."""
    options = settings.options(role)
    if role == ACTOR:
        # Where there are several nodes, the loss of one shall not take all.
        options["scheduling_strategy"] = "SPREAD"
    accelerator = role == LEARNER and (settings.learner_gpus > 0 or "TPU" in settings.learner_resources)
    environment = _environment(settings.threads(role), accelerator)
    return (
        ray.remote(worker).options(**options, max_restarts=0, runtime_env={"env_vars": environment}).remote(*arguments)
    )


class Reservation:
    """Keeps processors and memory of a node free for a process that Ray does not know: the replay server."""

    def ready(self) -> None:
        """Returns once the reservation holds."""


def reserve_replay(ray: ModuleType, settings: RayConfig) -> Any:
    """Returns a Ray actor that holds what the replay needs on this node, or None if it asks for nothing.

    Raises:
      UserError: this node does not have as much, or others took it.
    """
    options = settings.options(REPLAY)
    if not asked(options):
        return None
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
    return holder


def _environment(threads: int, accelerator: bool) -> dict[str, str]:
    """Environment of a worker, in force before it imports anything."""
    variables = {"TF_CPP_MIN_LOG_LEVEL": "3", "GRPC_VERBOSITY": "ERROR"}
    flags = os.environ.get("XLA_FLAGS", "")
    if not accelerator:
        variables["JAX_PLATFORMS"] = "cpu"
    if threads:
        variables |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        if threads == 1:
            flags += " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if flags.strip():
        variables["XLA_FLAGS"] = flags.strip()
    return variables
