"""The process of a Reverb server: `python -m mallocmuzero.replay.reverb.server_process`.

Reads its task as one line of JSON from standard input, answers with one line on standard output, and serves until its
standard input ends, which happens when the parent closes it or dies. SIGTERM and Ctrl-C do not end it.
"""

import json
import os
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from ...env.errors import UserError
from ..config import ReplayConfig
from ..segment import SegmentSpec
from .lazy_import import import_reverb
from .loopback import confine_to_loopback
from .stored_table import stage
from .table import make_table

# Another process may have inherited the pipe and keep it open; the death of the parent then shows in its process id.
_PARENT_CHECK_S = 1.0


def main() -> None:
    """Serves until the parent closes the pipe or dies."""
    # A scheduler signals all processes of a job at once, but the trainer still has to save the replay.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Native code may print to standard output; the pipe to the parent carries the answer alone.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.loads(sys.stdin.readline())
    # TensorFlow Lite's converter loads JAX wherever there is one: 67 MiB for nothing.
    sys.modules["jax"] = None  # type: ignore[assignment]
    try:
        server = _serve(task)
    except UserError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        sys.exit(1)
    # Reverb listens on all interfaces. Nobody knows the port yet.
    exposed = task["loopback"] and not confine_to_loopback(server.port)
    print(json.dumps({"port": server.port, "exposed": exposed}), file=answers, flush=True)
    while os.getppid() == task["parent"]:
        if select.select([0], [], [], _PARENT_CHECK_S)[0] and not os.read(0, 1024):
            break
    server.stop()


def _serve(task: dict[str, Any]) -> Any:
    """Returns a running `reverb.Server`, its table restored if the task asks for it."""
    reverb = import_reverb()
    config, spec = ReplayConfig(**task["config"]), SegmentSpec(**task["spec"])
    root = Path(task["root"])
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    if task["restore_from"] is not None:
        stage(Path(task["restore_from"]), root, config)
    checkpointer = reverb.platform.checkpointers_lib.DefaultCheckpointer(str(root))
    try:
        # Loads the staged checkpoint. Without a port, Reverb picks a free one.
        server = reverb.Server([make_table(config, spec)], port=task["port"], checkpointer=checkpointer)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"Reverb: {error}") from error
    # The server has loaded the staged files; the links are no longer needed.
    for staged in root.iterdir():
        shutil.rmtree(staged)
    return server


if __name__ == "__main__":
    main()
