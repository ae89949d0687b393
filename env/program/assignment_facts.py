"""What the compiler's log says about its own memory space assignment, in a program's `compiler` section.

A copy of its algorithm cannot derive these facts from the program. Nothing in a program's problem depends on them.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError
from .program import Program

# The key in `Program.compiler`.
ASSIGNMENT = "assignment"
# Columns of `AssignmentFacts.loop_times`.
LOOP_TIMES = ("begins", "enters", "returns", "ends")
# The key of `AssignmentFacts.loop_operands`.
LOOP_OPERANDS = "loop_operands"
# The largest number of bytes that is taken, and the last time that `Program.schedule_index` can hold.
_MOST, _LAST = 2**62, 2**31 - 1
# Facts read before: every decoder of a program asks for them again.
_read: "WeakKeyDictionary[Program, AssignmentFacts | None]" = WeakKeyDictionary()


class LoopOperand(NamedTuple):
    """A part of a loop's operand.

    Attributes:
      loop, buffer: the loop, and the buffer that it reads or carries.
      name: of the loop's instruction.
      path: of the part in the operand, which is a tuple: `{8}`.
    """

    loop: int
    buffer: int
    name: str
    path: str


@dataclass(frozen=True)
class AssignmentFacts:
    """The facts of one program. Times are those of `Program.schedule_index`; `L` loops.

    Attributes:
      typical_copy_s: seconds, to six digits, of the copy by which the compiler chose the starts of all copies; None
        where it chose none.
      end: the last time of the schedule.
      idle: times of instructions that a program leaves out and that take no time; all others take a step.
      order: buffers in the order in which the compiler placed them; not all need be there.
      slices: by buffer, the bytes of the slices of its prefetch, lowest bytes first; none for one that is prefetched as
        a whole. Buffers that the compiler did not try to prefetch are missing.
      loop_times: `[L, 4]` for each loop: when its first computation begins; when its body, or the first of its
        branches, takes its arguments; when that returns its results; and the time of the loop's own instruction.
      loop_bytes: by loop and buffer, the bytes that the compiler takes the loop's own instruction to write of it.
      passed: by buffer that a copy reads, when its first value is first passed on, by a tuple or an element of one.
      views: `[K, 2]` a buffer, and a time at which a bitcast reads it.
      supply: times from which instructions supply copies with another share of the seconds that they run, and that
        share: less than 1 while another core works. Empty if all supply them with all.
      loop_operands: what loops read and carry; empty for a program captured before this was kept.
    """

    typical_copy_s: float | None
    end: int
    idle: NDArray[np.int64]
    order: NDArray[np.int64]
    slices: dict[int, tuple[int, ...]]
    loop_times: NDArray[np.int64]
    loop_bytes: dict[tuple[int, int], int]
    passed: dict[int, int]
    views: NDArray[np.int64]
    supply: list[tuple[int, float]]
    loop_operands: list[LoopOperand]


def assignment_facts(program: Program) -> AssignmentFacts | None:
    """Returns the facts of a program; None for one that was captured before they were kept.

    Raises:
      FormatError: the program's entry is not what `capture` writes.
    """
    if program not in _read:
        entry = program.compiler.get(ASSIGNMENT)
        _read[program] = None if entry is None else _facts(program, entry)
    return _read[program]


def _facts(program: Program, entry: Any) -> AssignmentFacts:
    """Returns the facts of an entry. Raises FormatError if it is not what `capture` writes."""
    try:
        typical, slices = entry["typical_copy_s"], entry["slices"]
        facts = AssignmentFacts(
            None if typical is None else _number(typical),
            _integer(entry["end"]),
            np.array(_integers(entry["idle"]), np.int64),
            np.array(_integers(entry["order"]), np.int64),
            {
                _integer(buffer): tuple(_integers(sizes))
                for buffer, sizes in zip(slices["buffer"], slices["bytes"], strict=True)
            },
            _table(entry["loops"], LOOP_TIMES),
            {(_integer(loop), _integer(buffer)): _integer(moved) for loop, buffer, moved in entry["loop_bytes"]},
            {_integer(buffer): _integer(time) for buffer, time in entry["passed"]},
            _table(entry["views"], ("buffer", "time")),
            [(_integer(time), _number(share)) for time, share in entry["supply"]],
            [
                LoopOperand(_integer(loop), _integer(buffer), _string(name), _string(path))
                for loop, buffer, name, path in entry.get(LOOP_OPERANDS, ())
            ],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _wrong(program, f"is not what `capture` writes ({error!r:.80})") from error
    wrong = _mistake(program, facts)
    if wrong:
        raise _wrong(program, wrong)
    return facts


def _integer(value: Any) -> int:
    """Returns a whole number. Raises TypeError if it is none, OverflowError if no array holds it."""
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is no whole number")
    if abs(value) > _MOST:
        raise OverflowError("a number is too large")
    return value


def _integers(values: Any) -> list[int]:
    """Returns a list of whole numbers. Raises TypeError or OverflowError as `_integer` does."""
    if not isinstance(values, list):
        raise TypeError(f"{values!r:.40} is no list")
    return [_integer(value) for value in values]


def _number(value: Any) -> float:
    """Returns a number. Raises TypeError if it is none, OverflowError if it is too large."""
    if type(value) not in (int, float):
        raise TypeError(f"{value!r:.40} is no number")
    return float(value)


def _string(value: Any) -> str:
    """Returns a text. Raises TypeError if it is none."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _table(columns: Any, keys: tuple[str, ...]) -> NDArray[np.int64]:
    """Returns `[rows, keys]` of columns by key. Raises KeyError, TypeError, OverflowError or ValueError if wrong."""
    return np.array([_integers(columns[key]) for key in keys], np.int64).reshape(len(keys), -1).T


def assignment_entry(facts: AssignmentFacts) -> dict[str, Any]:
    """Returns the entry of `Program.compiler` that `assignment_facts` reads."""
    operands = {LOOP_OPERANDS: [list(operand) for operand in facts.loop_operands]} if len(facts.loop_times) else {}
    return {
        "typical_copy_s": facts.typical_copy_s,
        "end": facts.end,
        "idle": facts.idle.tolist(),
        "order": facts.order.tolist(),
        "slices": {"buffer": list(facts.slices), "bytes": [list(sizes) for sizes in facts.slices.values()]},
        "loops": {key: column.tolist() for key, column in zip(LOOP_TIMES, facts.loop_times.T, strict=True)},
        "passed": [[buffer, time] for buffer, time in facts.passed.items()],
        "views": {"buffer": facts.views[:, 0].tolist(), "time": facts.views[:, 1].tolist()},
        "supply": [list(change) for change in facts.supply],
        "loop_bytes": [[loop, buffer, moved] for (loop, buffer), moved in facts.loop_bytes.items()],
        **operands,
    }


def lacks_loop_operands(program: Program) -> bool:
    """Returns whether a program has loops and was captured before `loop_operands` was kept.

    Raises:
      FormatError: the program's entry is not what `capture` writes.
    """
    facts = assignment_facts(program)
    return "loop" in program.loop_kinds and (facts is None or LOOP_OPERANDS not in program.compiler[ASSIGNMENT])


def without_facts(program: Program) -> Program:
    """Returns a program as an earlier capture has it: without the facts."""
    return replace(program, compiler={key: entry for key, entry in program.compiler.items() if key != ASSIGNMENT})


def _mistake(program: Program, facts: AssignmentFacts) -> str | None:
    """Returns what is wrong with facts, as the end of a sentence about them; None for nothing."""
    buffers, loops = range(program.num_buffers), range(len(program.loop_trips))
    if facts.typical_copy_s is not None and not 0 < facts.typical_copy_s < 1e9:
        return f"has `typical_copy_s` {facts.typical_copy_s}"
    if len(set(facts.order.tolist())) < len(facts.order) or not np.isin(facts.order, buffers).all():
        return "names a buffer in `order` twice, or one that the program does not have"
    for buffer, sizes in facts.slices.items():
        if buffer not in buffers or (sizes and (sum(sizes) != program.size[buffer] or min(sizes) <= 0)):
            return f"has `slices` {sizes} of buffer {buffer}, which is another one or of another size"
    if not np.isin(facts.views[:, 0], buffers).all():
        return "names a buffer in `views` that the program does not have"
    if not all(buffer in buffers for buffer in facts.passed):
        return "names a buffer in `passed` that the program does not have"
    if not all(loop in loops and buffer in buffers for loop, buffer in facts.loop_bytes):
        return "names a loop or a buffer in `loop_bytes` that the program does not have"
    if any(moved < 0 for moved in facts.loop_bytes.values()):
        return "has bytes below 0 in `loop_bytes`"
    if not all(operand.loop in loops and operand.buffer in buffers for operand in facts.loop_operands):
        return "names a loop or a buffer in `loop_operands` that the program does not have"
    if not all(0 <= share < 1e9 for _, share in facts.supply):
        return "has `supply` that is not a share of the time"
    count = len(facts.loop_times)
    times = np.column_stack([np.zeros(count, np.int64), facts.loop_times, np.full(count, facts.end)])
    in_range = program.schedule_index[-1] <= facts.end <= _LAST
    if count != len(loops) or (np.diff(times) < 0).any() or not in_range:
        return "has times in `loops` or an `end` that are not those of the program"
    for name, when in (
        ("idle", facts.idle.tolist()),
        ("passed", facts.passed.values()),
        ("views", facts.views[:, 1].tolist()),
        ("supply", [time for time, _ in facts.supply]),
    ):
        if not all(0 <= time <= facts.end for time in when):
            return f"has a time in `{name}` that is not one of the schedule"
    return None


def _wrong(program: Program, what: str) -> FormatError:
    return FormatError(f"program {program.name!r}: `compiler.{ASSIGNMENT}` {what}; capture it again")
