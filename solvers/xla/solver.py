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


# Seconds that one run of the algorithm takes for each access, about, and the share of a budget that one may take.
_SECONDS_PER_ACCESS, _AFFORDABLE = 1e-4, 0.25


def xla(task: Task) -> None:
    """Offers the mapping of XLA's own algorithm under production settings."""
    task.doing = "placing buffers"
    decoder = Decoder(task.game.program, task.game.judge.target)
    task.offer_mapping(decoder.decode())


def affords_decoding(task: Task, share: float = _AFFORDABLE) -> bool:
    """Returns whether XLA's algorithm, run once, takes no more than about a share of the budget."""
    seconds = task.budget.seconds
    return seconds is None or share * seconds >= _SECONDS_PER_ACCESS * len(task.tables.access)


def xla_mappings(task: Task, share: float) -> Iterator[Mapping]:
    """Yields the mappings of XLA's algorithm under several settings, until a share of the budget is spent; none where
    it does not afford a single one."""
    if not affords_decoding(task):
        return
    program, target = task.game.program, task.game.judge.target
    for changes in _SETTINGS:
        if task.done or task.spent >= share:
            return
        yield Decoder(program, target, replace(production(target), **changes)).decode()  # type: ignore[arg-type]
