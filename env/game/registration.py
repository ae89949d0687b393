"""Registers the game with Gymnasium: `gymnasium.make("mallocmuzero/MallocGame-v0", program="tiny")`.

Importing this module registers the game, and `import mallocmuzero` imports it where Gymnasium is loaded already.
Gymnasium 1.0 no longer has entry points. So where Gymnasium is imported later, its own notation names this module:
`gymnasium.make("mallocmuzero.env.game.registration:mallocmuzero/MallocGame-v0", program="tiny")`.
"""

from typing import TYPE_CHECKING, Any

from ..extras import MissingExtra

try:
    from gymnasium.envs.registration import register, registry
except ModuleNotFoundError as error:
    raise MissingExtra("gymnasium", "gym") from error

if TYPE_CHECKING:
    from .adapters import GymnasiumGame

NAME = "mallocmuzero/MallocGame-v0"


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


if NAME not in registry:
    register(NAME, entry_point=make_game)
