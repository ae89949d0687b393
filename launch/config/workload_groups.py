"""Names that stand for many workloads: those of a split, and the corpus's programs to train on."""

from collections.abc import Sequence

from ...actors.self_play.resize import MARK
from ...env import workloads

# The corpus keeps some programs back for validation.
_CORPUS, _PART = "corpus", "train"
GROUPS = (*workloads.SPLITS, _CORPUS)


def expand_groups(names: Sequence[str]) -> list[str]:
    """Returns `names` with each group's name, `GROUP` or `GROUP@SHARE`, replaced by those of its workloads.

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
        expanded += [f"{workload}{mark}{share}" for workload in found]
    return expanded
