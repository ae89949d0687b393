"""The live view of a run's status: redrawn every few seconds until training ends, or Ctrl-C."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REFRESH_S = 2.0


def watch(
    console: "Console",
    read: Callable[[], dict[str, Any]],
    render: Callable[[dict[str, Any]], "RenderableType"],
    refresh_s: float = REFRESH_S,
) -> dict[str, Any]:
    """Shows a status until its run ends; the last status stays. Without a terminal only the last one is printed.

    Args:
      console: where to show it.
      read: returns the status.
      render: returns what to show of a status.
      refresh_s: seconds between two updates.

    Returns:
      The last status.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    status = read()
    hint = Text(f"every {refresh_s:g} s; Ctrl-C ends the view, not the run", style="dim")
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, transient=True) as live:
            try:
                while status["running"]:
                    live.update(Group(render(status), hint), refresh=True)
                    time.sleep(refresh_s)
                    status = read()
            except KeyboardInterrupt:
                pass  # the view has been ended, which is no fault
    else:
        while status["running"]:
            time.sleep(refresh_s)
            status = read()
    console.print(render(status))
    return status
