"""Makes the game known to Gymnasium: `gymnasium.make("mallocmuzero/MallocGame-v0", program="tiny")`.

Gymnasium calls `register` when it is imported (the entry point `gymnasium.envs` of the package).
"""

from typing import TYPE_CHECKING, Any

from ..extras import MissingExtra

if TYPE_CHECKING:
    from .adapters import GymnasiumGame

NAME = "mallocmuzero/MallocGame-v0"


def register() -> None:
    """Registers the game. Raises MissingExtra without Gymnasium."""
    try:
        from gymnasium.envs.registration import register as register_name
    except ModuleNotFoundError as error:
        raise MissingExtra("gymnasium", "gym") from error
    register_name(NAME, entry_point=make_game)


def make_game(program: Any = None, **options: Any) -> "GymnasiumGame":
    """Makes the environment.

    Args:
      program: a program, the name of a workload, or the path of a program file.
      options: see `GymnasiumGame`.

    Raises:
      UserError: there is no such program.
    """
    from .. import workloads
    from ..errors import UserError
    from ..program.program import Program
    from .adapters import GymnasiumGame

    if program is None:
        raise UserError(f'gymnasium.make("{NAME}", program="tiny"): program is missing; name a workload or a file')
    return GymnasiumGame(program if isinstance(program, Program) else workloads.load(program), **options)
