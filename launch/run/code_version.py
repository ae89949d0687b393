"""Which code runs here."""

import subprocess
from pathlib import Path

from ...version import VERSION

_TIMEOUT_S = 10


def code_version() -> dict[str, str | None]:
    """Returns the package's version, and in a git checkout the commit, `-dirty` if something was changed."""
    folder = Path(__file__).parents[2]
    commit = None
    if (folder / ".git").exists():
        try:
            said = subprocess.run(
                ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            # Without git, or with one that hangs, the version number has to do.
            return {"version": VERSION, "commit": None}
        commit = said.stdout.strip() or None
    return {"version": VERSION, "commit": commit}
