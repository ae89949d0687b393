"""Settings of the Ray topology: the resources of each role, and the driver's time-outs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...env.errors import UserError

ACTOR, LEARNER, EVALUATOR, REPLAY = "actor", "learner", "evaluator", "replay"
ROLES = (ACTOR, LEARNER, EVALUATOR, REPLAY)
_BYTES_PER_GB = 10**9
# Ray's built-in resources, which have their own settings here.
BUILT_IN = ("CPU", "GPU", "memory", "object_store_memory")


@dataclass(frozen=True)
class RayConfig:
    """Resources and time-outs of the Ray topology.

    Attributes:
      address: `auto` or `HOST:PORT` of a running cluster, or None to start one on this machine.
      nodes: nodes of a running cluster that a run waits for before it begins.
      actor_cpus, learner_cpus, evaluator_cpus: processors that each worker asks Ray for; fractions are allowed.
      actor_memory_gb, learner_memory_gb, evaluator_memory_gb: memory in GB that each worker asks Ray for; 0 reserves
        none.
      replay_cpus, replay_memory_gb: processors and memory on the driver's node that other roles leave to the replay.
      learner_gpus: accelerators that the learner asks for; without any it computes on the CPU.
      actor_resources, learner_resources, evaluator_resources: further resources that each worker asks for, by the names
        that the nodes were started with (`ray start --resources='{"NAME": 4}'`).
      actor_threads, learner_threads, evaluator_threads: 1 for numerical code and games on one thread, 0 for no limit.
      call_timeout_s: seconds that a call may take, waits for the replay included, before its worker counts as hung.
      start_timeout_s: seconds until the replay, the learner and the nodes must have started. A line then names the
        actors that have not.
      restarts: replacements of dead workers before the run gives up.
    """

    address: str | None = None
    nodes: int = 1
    actor_cpus: float = 0.5
    learner_cpus: float = 0.5
    evaluator_cpus: float = 0.1
    replay_cpus: float = 0.0
    actor_memory_gb: float = 0.0
    learner_memory_gb: float = 0.0
    evaluator_memory_gb: float = 0.0
    replay_memory_gb: float = 0.0
    learner_gpus: float = 0.0
    actor_resources: dict[str, float] = field(default_factory=dict)
    learner_resources: dict[str, float] = field(default_factory=dict)
    evaluator_resources: dict[str, float] = field(default_factory=dict)
    actor_threads: int = 1
    learner_threads: int = 1
    evaluator_threads: int = 1
    call_timeout_s: float = 300.0
    start_timeout_s: float = 300.0
    restarts: int = 10

    def __post_init__(self) -> None:
        cpus, memory = [f"{role}_cpus" for role in ROLES], [f"{role}_memory_gb" for role in ROLES]
        for name in (*cpus, *memory, "learner_gpus", "restarts"):
            if getattr(self, name) < 0:
                raise UserError(f"ray.{name} is {getattr(self, name)}; it must not be negative")
        for name in ("actor_threads", "learner_threads", "evaluator_threads"):
            if getattr(self, name) not in (0, 1):
                raise UserError(f"ray.{name} is {getattr(self, name)}; it must be 0 or 1")
        for name in ("call_timeout_s", "start_timeout_s"):
            if not getattr(self, name) > 0:
                raise UserError(f"ray.{name} is {getattr(self, name)}; it must be above 0")
        if self.nodes < 1:
            raise UserError(f"ray.nodes is {self.nodes}; it must be at least 1")
        for role in (ACTOR, LEARNER, EVALUATOR):
            for name, amount in getattr(self, f"{role}_resources").items():
                _check_resource(f"ray.{role}_resources.{name}", name, amount)

    def options(self, role: str) -> dict[str, Any]:
        """Returns the resources of a role as options of a Ray actor."""
        options: dict[str, Any] = {
            "num_cpus": getattr(self, f"{role}_cpus"),
            "num_gpus": self.learner_gpus if role == LEARNER else 0,
            "resources": dict(getattr(self, f"{role}_resources", {})),
        }
        memory = round(getattr(self, f"{role}_memory_gb") * _BYTES_PER_GB)
        return options | ({"memory": memory} if memory else {})

    def threads(self, role: str) -> int:
        """Returns the thread setting of a role: 1, or 0 for no limit."""
        threads: int = getattr(self, f"{role}_threads")
        return threads


def asked(options: Mapping[str, Any]) -> dict[str, float]:
    """Returns the resources in `RayConfig.options` under the names that Ray's nodes use; amounts of 0 are left out."""
    named = {"CPU": options["num_cpus"], "GPU": options["num_gpus"], "memory": options.get("memory", 0)}
    return {name: float(amount) for name, amount in {**named, **options["resources"]}.items() if amount}


def totals(config: RayConfig, actors: int) -> dict[str, float]:
    """Returns the resources of all roles together, for a run with `actors` actors, named as in `asked`."""
    total: dict[str, float] = {}
    for role in ROLES:
        for name, amount in asked(config.options(role)).items():
            total[name] = total.get(name, 0.0) + amount * (actors if role == ACTOR else 1)
    return total


def _check_resource(setting: str, name: str, amount: float) -> None:
    if name in BUILT_IN:
        raise UserError(f"{setting}: has a setting of its own; choose ray.*_cpus, ray.learner_gpus or ray.*_memory_gb")
    # Ray accepts whole numbers, and fractions of one.
    if amount < 0 or (amount > 1 and amount != int(amount)):
        raise UserError(f"{setting} is {amount}; it must be a whole number, or a share of one between 0 and 1")
