"""Reads conditionals, `jax.lax.cond` and `jax.lax.switch`, from a module (pipeline step 2)."""

from ..errors import FormatError
from .hlo import Computation, Instruction, Module


def branches_of(conditional: Instruction, module: Module) -> tuple[Computation, ...]:
    """Returns the computations of which a conditional runs one, in the order of the operands that they take.

    Raises:
      FormatError: a branch is missing from the module.
    """
    listed = conditional.attribute("branch_computations")
    if listed is None:  # one for true, one for false
        names = [conditional.attribute("true_computation") or "", conditional.attribute("false_computation") or ""]
    else:
        names = listed.strip("{}").split(",")
    found = [module.computations.get(name.strip().lstrip("%")) for name in names]
    branches = tuple(branch for branch in found if branch is not None)
    if len(branches) != len(found) or len(found) != len(conditional.operands) - 1:
        raise FormatError(
            f"{module.path}: a branch of conditional {conditional.name!r} is missing: the dump is truncated"
        )
    return branches
