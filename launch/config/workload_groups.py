"""Names that stand for many workloads: those of a split, and the corpus's programs to train on."""

import logging
from collections.abc import Sequence

from ...actors.self_play.resize import MARK, leaves_memory
from ...env import workloads

_log = logging.getLogger(__name__)

# The corpus keeps some programs back for validation.
_CORPUS, _PART = "corpus", "train"
GROUPS = (*workloads.SPLITS, _CORPUS)


def expand_groups(names: Sequence[str]) -> list[str]:
    """Returns `names` with each group's name, `GROUP` or `GROUP@SHARE`, replaced by those of its workloads.

    A group with a share leaves out the programs whose instructions reserve more than that share of their fast memory,
    and a warning names them.

    Raises:
      UserError: there is no corpus here.
    """
    expanded: list[str] = []
    for name in names:
        group, mark, share = str(name).partition(MARK)
        if group not in GROUPS:
            expanded.append(name)
            continue
        found = workloads.corpus_names(_PART) if group == _CORPUS else workloads.names_of(group)
        if mark:
            found = _with_memory(name, found, share)
        expanded += [f"{workload}{mark}{share}" for workload in found]
    return expanded


def _with_memory(group: str, names: Sequence[str], share: str) -> list[str]:
    """Returns the programs that can be played with a share of their fast memory; all, if it is no share."""
    try:
        value = float(share)
    except ValueError:
        return list(names)  # loading them says what is wrong
    if not 0.0 < value < 1.0:
        return list(names)
    fit = [name for name in names if leaves_memory(workloads.load(name), value)]
    if without := sorted(set(names) - set(fit)):
        _log.warning("%s: left out, since instructions reserve more: %s", group, ", ".join(without))
    return fit
