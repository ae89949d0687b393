"""The process of a worker of `workers.py`: solves a request, reports in lines of JSON, and ends early on request.

    python -m mallocmuzero.launch.run.solve_worker FOLDER NUMBER

It stops when its standard input ends, with the best mapping so far, and so never outlives its parent.
"""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.compiled.cache import keep_compiled_code_by_source
from ...env.errors import UserError

# Names of the files in FOLDER.
REQUEST, PROGRAM = "request.json", "program.json.gz"
# The keys of the lines: a status, the figures of the result, and the message of an error that the user can fix.
STATUS, RESULT, ERROR = "status", "result", "error"
_REPORT_S = 0.2


def mapping_file(folder: Path, number: int) -> Path:
    """Returns the file that worker `number` writes its mapping to."""
    return folder / f"mapping-{number}.json.gz"


def run(folder: Path, number: int) -> None:
    """Solves the request as worker `number`. Raises UserError as `solve` does."""
    from ...env.program.mapping_file import write_mapping
    from ...env.program.program_file import read_program
    from ...solvers.common.budget import Budget, Status
    from ...solvers.common.exchange import Exchange
    from ...solvers.solve import SOLVERS, solve
    from .guided import learned_solvers

    request: dict[str, Any] = json.loads((folder / REQUEST).read_text(encoding="utf-8"))
    program = read_program(folder / PROGRAM)
    stopped = threading.Event()

    def stop_at_end_of_input() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        stopped.set()

    threading.Thread(target=stop_at_end_of_input, daemon=True).start()
    said_at = 0.0

    def report(status: Status) -> None:
        nonlocal said_at
        if time.monotonic() - said_at < _REPORT_S:
            return
        said_at = time.monotonic()
        _say(
            STATUS,
            {
                "seconds": status.seconds,
                "evaluations": status.evaluations,
                "best_s": None if status.best_s == float("inf") else status.best_s,
                "doing": status.doing,
                "production_s": status.production_s,
                "objective": status.objective,
            },
        )

    budget = Budget(**request["budget"])
    # Which plans are there when depends on the clock, so runs that have to repeat do without them.
    together = request["together"] and budget.seconds is not None
    exchange = Exchange(folder, number, len(request["seeds"])) if together else None
    solution = solve(
        program,
        request["solver"],
        objective=request["objective"],
        budget=budget,
        seed=request["seeds"][number],
        progress=report,
        stop=stopped.is_set,
        repack=request["repack"],
        solvers={**SOLVERS, **learned_solvers(request["policy"], request["placebo"])},
        exchange=exchange,
        crossable=_mask(request["crossable"], program.num_buffers),
    )
    write_mapping(solution.mapping, program, mapping_file(folder, number))
    fields = ("judged_s", "objective", "evaluations", "seconds", "stopped", "ended")
    _say(RESULT, {name: getattr(solution, name) for name in fields})


def _mask(buffers: list[int] | None, count: int) -> NDArray[np.bool_] | None:
    return None if buffers is None else np.isin(np.arange(count), buffers)


def _say(kind: str, value: Any) -> None:
    print(json.dumps({kind: value}), flush=True)


def main() -> int:
    """Runs the worker; the exit status is 2 if the request cannot be used."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends the input
    keep_compiled_code_by_source()
    try:
        run(Path(sys.argv[1]), int(sys.argv[2]))
    except UserError as error:
        _say(ERROR, str(error))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
