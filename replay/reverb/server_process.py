"""What runs inside the Reverb server's process: `python -m mallocmuzero.replay.server_process`.

Reads its task as one line of JSON from standard input, answers with one line on standard output, and serves until
standard input ends, which it does when the parent closes it or dies. SIGTERM and Ctrl-C do not end it.
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
from ..interface import ReplayConfig
from ..segment import SegmentSpec
from .checkpoint import stage
from .lazy_import import TABLE, import_reverb, import_tensorflow
from .loopback import confine_to_loopback

# Should some other process have inherited the pipe, a dead parent shows in the parent's id instead.
_PARENT_CHECK_S = 1.0


def main() -> None:
    """Serves until the parent lets go."""
    # Whoever stops a job tells all its processes at once, but the trainer still wants to save the replay.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Native code may print; only the answer belongs on the real standard output.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    task = json.loads(sys.stdin.readline())
    try:
        server = _serve(task)
    except UserError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        sys.exit(1)
    # Reverb listens on all addresses. The port is known to nobody yet.
    exposed = task["loopback"] and not confine_to_loopback(server.port)
    print(json.dumps({"port": server.port, "exposed": exposed}), file=answers, flush=True)
    while os.getppid() == task["parent"]:
        if select.select([0], [], [], _PARENT_CHECK_S)[0] and not os.read(0, 1024):
            break
    server.stop()


def _serve(task: dict[str, Any]) -> Any:
    """Returns a running `reverb.Server`."""
    reverb, tensorflow = import_reverb(), import_tensorflow()
    config, spec = ReplayConfig(**task["config"]), SegmentSpec(**task["spec"])
    root = Path(task["root"])
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    if task["restore_from"] is not None:
        stage(Path(task["restore_from"]), root, config)
    table = reverb.Table(
        name=TABLE,
        sampler=reverb.selectors.Prioritized(config.priority_exponent),
        remover=reverb.selectors.Fifo(),
        max_size=config.capacity,
        rate_limiter=reverb.rate_limiters.SampleToInsertRatio(
            samples_per_insert=config.samples_per_insert,
            min_size_to_sample=config.min_size,
            error_buffer=config.error_range,
        ),
        signature={
            name: tensorflow.TensorSpec((spec.length, *shape), dtype) for name, (shape, dtype) in spec.fields.items()
        },
    )
    checkpointer = reverb.platform.checkpointers_lib.DefaultCheckpointer(str(root))
    try:
        # Loads the staged checkpoint. Without a port it picks a free one itself.
        server = reverb.Server([table], port=task["port"], checkpointer=checkpointer)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"Reverb: {error}") from error
    # Loaded, so the links to the checkpoint's files are of no more use.
    for staged in root.iterdir():
        shutil.rmtree(staged)
    return server


if __name__ == "__main__":
    main()
