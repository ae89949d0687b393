"""The events of MSA's own simulator, as events of a program and its mapping (pipeline step 4).

`printed_estimate.py` makes the compiler's estimate from them.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from .compiled_schedule import CompiledSchedule
from .extract import Extraction
from .log import CompilerLog

# Events that are no copy's number.
RUN, ISSUE, STEP, SKIP, CHARGE = -1, -2, -3, -4, -5


@dataclass
class SimulatorEvents:
    """What MSA's simulator goes through.

    Attributes:
      sequence: `RUN` runs the next instruction of the program, `ISSUE` issues the next copy, `STEP` runs an instruction
        that the program leaves out, `SKIP` passes over one that a copy replaces or that moves nothing, `CHARGE` charges
        for a conditional when all its branches have run, and a number from 0 waits for the copy of that number.
      step_s: seconds of one pass of a `STEP`.
      step_trips: passes of each `STEP`, in their order.
      charges: of each `CHARGE`, in their order: seconds of a pass, those of them that are idle for copies, and passes.
    """

    sequence: list[int] = field(default_factory=list)
    step_s: float = 0.0
    step_trips: list[int] = field(default_factory=list)
    charges: list[tuple[float, float, int]] = field(default_factory=list)


def simulator_events(
    extraction: Extraction,
    schedule: CompiledSchedule,
    log: CompilerLog,
    copies: Sequence[tuple[int, tuple[int, ...]]],
    later: Set[int],
) -> SimulatorEvents:
    """Returns the events that the log records.

    Args:
      extraction: the program.
      schedule: its compiled schedule.
      log: MSA's log.
      copies: place of the issue and row (`COPY_FIELDS`) of every copy, in the order of issue.
      later: the copies that the mapping issues an instruction later than XLA does.
    """
    program = extraction.program
    names = list(schedule.instructions)
    copy_of = {names[place]: copy for copy, (place, _) in enumerate(copies) if place >= 0}
    waiting = sorted(later, reverse=True)
    events = SimulatorEvents()
    reached = 0

    def pass_on(event: int) -> None:
        nonlocal reached
        events.sequence.append(event)
        reached += 1
        while waiting and copies[waiting[-1]][1][2] < reached:
            waiting.pop()
            events.sequence.append(ISSUE)

    def skip(until: int) -> None:
        while reached < until and reached in schedule.passed_over:
            pass_on(SKIP)

    for timed, elapsed in log.timeline:
        name = schedule.known(timed)
        instruction = schedule.instructions.get(name)
        source = instruction.operands[0] if instruction is not None and instruction.operands else ""
        if name in schedule.index and schedule.index[name] not in schedule.idle:
            skip(schedule.index[name])
            pass_on(RUN)
        elif name in copy_of:
            if copy_of[name] in later:
                continue
            skip(copies[copy_of[name]][1][2] + 1)
            events.sequence.append(ISSUE)
        elif source in copy_of and instruction is not None and instruction.opcode.endswith("-done"):
            skip(copies[copy_of[source]][1][3])
            events.sequence.append(copy_of[source])
        elif name in extraction.values.flattened.conditionals:
            events.sequence.append(CHARGE)
            # The compiler has charged for all branches before.
            idle = max(0.0, elapsed - log.total_bytes.get(name, 0.0) / program.target.hbm_bandwidth)
            events.charges.append((elapsed, idle, max(1, log.trips.get(name, 1))))
        elif elapsed > 0:
            events.sequence.append(STEP)
            events.step_trips.append(max(1, log.trips.get(name, 1)))
            events.step_s = min(events.step_s or elapsed, elapsed)
    skip(program.num_instructions)
    return events
