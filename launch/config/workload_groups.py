"""Names that stand for many workloads: the programs of a split, and the corpus's training programs."""

from collections.abc import Sequence

from ...actors.self_play.resize import MARK, leaves_memory
from ...env import workloads

# The corpus keeps some programs back for validation.
_CORPUS, _PART = "corpus", "train"
GROUPS = (*workloads.SPLITS, _CORPUS)


def expand_groups(names: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Replaces each group's name, `GROUP` or `GROUP@SHARE`, by the names of its workloads.

    Returns:
      The names; and by group the programs that its share leaves out, since their instructions reserve more than that
      share of their fast memory.

    Raises:
      UserError: there is no corpus here.
    """
    expanded: list[str] = []
    left_out: dict[str, list[str]] = {}
    for name in names:
        group, mark, share = str(name).partition(MARK)
        if group not in GROUPS:
            expanded.append(name)
            continue
        found = workloads.corpus_names(_PART) if group == _CORPUS else workloads.names_of(group)
        fit = _with_memory(found, share) if mark else found
        if len(fit) < len(found):
            left_out[name] = [workload for workload in found if workload not in fit]
        expanded += [f"{workload}{mark}{share}" for workload in fit]
    return expanded, left_out


def _with_memory(names: Sequence[str], share: str) -> list[str]:
    """Returns the programs that can be played with a share of their fast memory; all, if it is no share."""
    try:
        value = float(share)
    except ValueError:
        return list(names)  # loading them reports what is wrong
    if not 0.0 < value < 1.0:
        return list(names)
    return [name for name in names if leaves_memory(workloads.load(name), value)]
