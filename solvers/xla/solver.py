"""The solver `xla`: the compiler's own algorithm; and its mappings under a few settings, as starts of searches."""

from collections.abc import Iterator
from dataclasses import replace

from ...env.program.mapping import Mapping
from ..common.task import Task
from .decoder import Decoder
from .options import production

# Changes of the production settings whose mappings differ most.
_SETTINGS: tuple[dict[str, float | bool], ...] = (
    {},
    {"copy_bandwidth_scale": 0.5},
    {"loop_optimiser": False},
    {"copy_bandwidth_scale": 0.5, "loop_optimiser": False},
)


def xla(task: Task) -> None:
    """Offers the mapping of XLA's own algorithm under production settings."""
    task.doing = "placing buffers"
    decoder = Decoder(task.game.program, task.game.judge.target)
    task.offer_mapping(decoder.decode())


def xla_mappings(task: Task, share: float) -> Iterator[Mapping]:
    """Yields the mappings of XLA's algorithm under several settings, until a share of the budget is spent."""
    program, target = task.game.program, task.game.judge.target
    for changes in _SETTINGS:
        if task.done or task.spent >= share:
            return
        yield Decoder(program, target, replace(production(target), **changes)).decode()  # type: ignore[arg-type]
