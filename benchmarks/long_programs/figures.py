"""The figures of long programs: one function each, from a program to the least processor seconds of one call."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.game.game import MallocGame, play_line
from mallocmuzero.env.game.moves import COPY, NO_COPY
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.mapping_file import read_mapping, write_mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.residency.observation import Observer
from mallocmuzero.env.residency.position import Position
from mallocmuzero.env.verifier.verify import check, verify
from mallocmuzero.env.viewer.picture import draw
from mallocmuzero.launch.run.guided import read_scoring_parameters
from mallocmuzero.solvers.common.budget import PROCESSOR, Budget
from mallocmuzero.solvers.common.task import Task
from mallocmuzero.solvers.common.walk import Walk
from mallocmuzero.solvers.learned.score import make_score
from mallocmuzero.solvers.xla.decoder import Decoder

from ..common.json_lines import Record

# A call is repeated for about this long, and its least time counts.
_SECONDS = 0.5
# The limit given to `bound`, and the time by which it may miss it.
BOUND_S = 20.0
LATE_S, LATE_SHARE = 1.0, 0.05
# Changed games of a walk, and the first ones, which are not timed.
_CHANGED, _FIRST = 200, 50
_OBSERVATIONS = 1000


def least(call: Callable[[], object], seconds: float = _SECONDS) -> float:
    """Returns the least processor seconds of a call, made at least once: other work may run beside it."""
    best, until = np.inf, time.process_time() + seconds
    while True:
        began = time.process_time()
        call()
        now = time.process_time()
        best = min(best, now - began)
        if now >= until:
            return float(best)


def _mapping(program: Program) -> Mapping:
    assert program.production is not None
    return program.production


def tables(program: Program) -> Record:
    """Measures making a game with its tables."""
    return {"seconds": least(lambda: MallocGame(program))}


def game(program: Program) -> Record:
    """Measures a whole game that wants everything fast."""
    played = MallocGame(program)
    moves = [NO_COPY] * program.num_accesses
    return {"seconds": least(lambda: play_line(played, moves)), "decisions": len(played.actions)}


def changed_game(program: Program) -> Record:
    """Measures a game of a walk, as annealing plays it: it starts from a kept state near its change."""
    task = Task(program, None, None, Budget(None, 10**9, PROCESSOR), 0)
    walk = Walk(task, np.full(len(task.tables.access), COPY, np.int8))
    walk.step(_FIRST, 0.0)
    began = time.process_time()
    walk.step(_CHANGED, 0.0)
    return {"seconds": (time.process_time() - began) / _CHANGED}


def observation(program: Program) -> Record:
    """Measures one observation, in the middle of a game."""
    played = MallocGame(program)
    while played.access < program.num_accesses // 2 and not played.done:
        played.step_unpaid(int(np.flatnonzero(played.legal)[0]))
    out = played.observe()

    def observe() -> None:
        for _ in range(_OBSERVATIONS):
            played.observe(out)

    return {"seconds": least(observe) / _OBSERVATIONS}


def _position(program: Program) -> Position:
    task = Task(program, None, None, Budget(None, 10**9, PROCESSOR), 0)
    return Position(task.plan_game, np.full(len(task.tables.access), COPY, np.int8))


def stays_observed(program: Program) -> Record:
    """Measures one observation of all stays, what the policy sees of a game."""
    observer = Observer(_position(program))
    return {"seconds": least(observer.observe)}


def changes_scored(program: Program) -> Record:
    """Measures one forward pass of the shipped policy over all changes."""
    position = _position(program)
    rows, changes = Observer(position).observe(), position.changes
    score = make_score(read_scoring_parameters(None))
    return {"seconds": least(lambda: score(rows, changes.stay, changes.placement)), "changes": len(changes.stay)}


def decoder(program: Program) -> Record:
    """Measures making a decoder of XLA's algorithm."""
    return {"seconds": least(lambda: Decoder(program))}


def decode(program: Program) -> Record:
    """Measures a decode, and checks its mapping."""
    made = Decoder(program)
    check(program, program.target, made.decode())
    return {"seconds": least(made.decode)}


def verified(program: Program) -> Record:
    """Measures verifying XLA's mapping, repeated."""
    check(program, program.target, _mapping(program))
    return {"seconds": least(lambda: verify(program, program.target, _mapping(program)))}


def simulated(program: Program) -> Record:
    """Measures simulating XLA's mapping, repeated."""
    return {"seconds": least(lambda: simulate(program, program.target, _mapping(program)))}


def drawn(program: Program) -> Record:
    """Measures drawing XLA's mapping, repeated, to a file."""
    with tempfile.TemporaryDirectory() as folder:
        return {"seconds": least(lambda: draw(program, _mapping(program), Path(folder) / "picture.png"))}


def program_written(program: Program) -> Record:
    """Measures writing a program file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.json.gz"
        return {"seconds": least(lambda: write_program(program, path)), "file_bytes": path.stat().st_size}


def program_read(program: Program) -> Record:
    """Measures reading a program file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.json.gz"
        write_program(program, path)
        return {"seconds": least(lambda: read_program(path))}


def mapping_written(program: Program) -> Record:
    """Measures writing a mapping file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mapping.json.gz"
        seconds = least(lambda: write_mapping(_mapping(program), program, path))
        return {"seconds": seconds, "file_bytes": path.stat().st_size}


def mapping_read(program: Program) -> Record:
    """Measures reading a mapping file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "mapping.json.gz"
        write_mapping(_mapping(program), program, path)
        return {"seconds": least(lambda: read_mapping(path, program))}


def bounded(program: Program) -> Record:
    """Measures a bound with a limit of seconds, and notes whether it kept to it."""
    began = time.perf_counter()
    found = bound(program, seconds=BOUND_S)
    seconds = time.perf_counter() - began
    assert found.production_s is not None
    check(program, program.target, found.mapping)
    return {
        "seconds": seconds,
        "kept": seconds <= BOUND_S + max(LATE_S, LATE_SHARE * BOUND_S),
        "bound": found.bound_s / found.production_s,
        "mapping": found.mapping_s / found.production_s,
        "floor": found.floor_s / found.production_s,
        "columns": found.size[0],
    }


# Name of a figure -> what it measures.
FIGURES: dict[str, Callable[[Program], Record]] = {
    "making the game's tables": tables,
    "a whole game": game,
    "a changed game of a walk": changed_game,
    "one observation": observation,
    "what the policy sees, all stays": stays_observed,
    "the policy's scores, all changes": changes_scored,
    "making a decoder": decoder,
    "one decode": decode,
    "verifying a mapping": verified,
    "simulating it": simulated,
    "drawing it": drawn,
    "writing the program": program_written,
    "reading the program": program_read,
    "writing the mapping": mapping_written,
    "reading the mapping": mapping_read,
    "a bound": bounded,
}
