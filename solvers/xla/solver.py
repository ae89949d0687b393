"""The solver `xla`: what the compiler does by default, once."""

from ..common.task import Task
from .decoder import Decoder


def xla(task: Task) -> None:
    """Offers the mapping of XLA's own algorithm with the settings it has in production."""
    task.doing = "placing buffers"
    decoder = Decoder(task.game.program, task.game.judge.target)
    task.offer_mapping(decoder.decode())
