"""Shell completion of names: workloads, splits, solvers, targets and objectives, written into the shell's script."""

import argparse
from collections.abc import Sequence
from typing import Any

_BASH = """{name}() {{
  compgen -W "{words}" -- "$1"{files}
}}
"""
_ZSH = """{name}() {{
  local -a words=({words})
  compadd -a words{files}
}}
"""


def add_completions(parser: argparse.ArgumentParser) -> None:
    """Gives each argument of the commands the names that it accepts; all other arguments complete files."""
    from ...env import workloads
    from ...env.physics.objective import OBJECTIVES
    from ...env.program.target import GENERATIONS
    from ...solvers.solve import SOLVERS

    named = {
        "program": (workloads.names(), True),
        "workload": ([*workloads.names(), *workloads.SPLITS, workloads.CORPUS], True),
        "split": ((*workloads.SPLITS, workloads.CORPUS), False),
        # The learned solvers are `launch`'s own, and their module would load JAX's libraries.
        "solver": (("guided", "policy", *SOLVERS), False),
        "target": (tuple(GENERATIONS), False),
        "objective": (OBJECTIVES, False),
        "topology": (("process", "ray"), False),
        "game": (("residency", "access"), False),
        "scope": (("legal", "unreplaced", "game"), False),
    }
    for command in _commands(parser):
        for action in command._actions:
            if action.dest in named:
                _set(action, _completion(action.dest, *named[action.dest]))
            elif action.dest in ("run_dir", "folder", "keep"):
                _set(action, {"bash": "_shtab_compgen_dirs", "zsh": "_files -/"})
            elif action.nargs != 0 and not action.choices:
                _set(action, {"bash": "_shtab_compgen_files", "zsh": "_files"})


def _commands(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return list(action.choices.values())
    return []


def _set(action: argparse.Action, complete: dict[str, Any]) -> None:
    action.complete = complete  # type: ignore[attr-defined]


def _completion(kind: str, words: Sequence[str], files: bool) -> dict[str, Any]:
    """Returns the completion of one kind of name, as `shtab` takes it."""
    name, text = f"_mallocmuzero_{kind}", " ".join(words)
    bash = _BASH.format(name=name, words=text, files='\n  compgen -f -- "$1"' if files else "")
    zsh = _ZSH.format(name=name, words=text, files="\n  _files" if files else "")
    return {"bash": name, "zsh": name, "preamble": {"bash": bash, "zsh": zsh}}
