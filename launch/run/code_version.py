"""The version of the running code."""

import subprocess
from pathlib import Path

from ...version import VERSION

_TIMEOUT_S = 10


def code_version() -> dict[str, str | None]:
    """Returns the package's `version`, and in a git checkout the `commit`, with `-dirty` if files are changed."""
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
            # Git is missing or hangs.
            return {"version": VERSION, "commit": None}
        commit = said.stdout.strip() or None
    return {"version": VERSION, "commit": commit}
