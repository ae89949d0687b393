"""Messages for names that do not exist: the nearest names that do."""

import difflib
from collections.abc import Iterable

# This many names fit on a line.
_FEW = 16
# Names less similar than this are not misspellings, e.g. `none` of `anneal`.
_ALIKE = 0.7


def unknown(kind: str, name: str, names: Iterable[str], listing: str = "") -> str:
    """Returns the message that nothing is called `name`: the nearest names, else all of them if they are few.

    Args:
      kind: a word for the thing, such as `solver`.
      name: the name that was given.
      names: the names that exist.
      listing: a command that lists them, for where there are many; empty for none.
    """
    names = list(names)
    near = nearest(name, names)
    message = f"no {kind} is called {name!r}; "
    if near:
        message += f"did you mean {' or '.join(near)}?"
    if listing and (near or len(names) > _FEW):
        return f"{message.rstrip('; ')}{'' if near else ';'} `{listing}` lists all {len(names)}"
    return message if near else f"{message}the {kind}s are {', '.join(names)}"


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Returns the names that begin with `name`, then those spelled most like it; at most `most`."""
    names = list(names)
    begin = [other for other in names if name and other.startswith(name)]
    near = difflib.get_close_matches(name, names, n=most, cutoff=_ALIKE)
    return list(dict.fromkeys([*begin, *near]))[:most]
