"""Checks copies that replace a synchronous copy instruction: each must have the same effect as that instruction."""

from collections import defaultdict

from ..program.mapping import PREFETCH
from ..program.program import REPLACEABLE_OPCODES, Program, replaced_pair
from .events import Access, Copy, LoopNest
from .violation import Kind, Report


def is_whole(copy: Copy, report: Report) -> bool:
    """Returns whether a copy either stays within a buffer or is a complete replacement; reports a mixture of both."""
    if (copy.replaces >= 0) == (copy.source != copy.buffer) and (copy.replaces < 0 or copy.direction == PREFETCH):
        return True
    message = f"copy {copy.number} from {report.buffer(copy.source)} to {report.buffer(copy.buffer)} "
    message += "must replace an instruction, read another buffer and be a prefetch: all three, or neither of the first."
    report.add(Kind.REPLACES, message, copy.start if copy.replaces < 0 else copy.replaces, copy.buffer)
    return False


def check_replacement(program: Program, copy: Copy, accesses_of: list[list[Access]], report: Report) -> None:
    """Reports a copy from another buffer whose effect is not that of the instruction it replaces.

    Args:
      program: the program.
      copy: the copy.
      accesses_of: per buffer, its accesses.
      report: takes the violations.
    """
    words = f"copy {copy.number} from {report.buffer(copy.source)} to {report.buffer(copy.buffer)}"
    target = copy.replaces
    if replaced_pair(program, target) != (copy.source, copy.buffer):
        if program.opcodes[target] not in REPLACEABLE_OPCODES:
            trouble = f"is a {program.opcodes[target]}, not one of {', '.join(REPLACEABLE_OPCODES)}"
        elif program.keeps_layout is not None and not program.keeps_layout[target]:
            trouble = "changes the layout"
        else:
            trouble = "does not copy all bytes of that one buffer to the other"
        trouble = f"replaces {report.instruction(target)}, which {trouble}"
        report.add(Kind.REPLACES, f"{words} {trouble}.", target, copy.buffer)
    for first, last in zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True):
        ends_inside = copy.end <= last or (copy.start < last and copy.end == last + 1)
        if (first <= target <= last) != (first <= copy.start and ends_inside):
            trouble = f"does not run in the same loop as {report.instruction(target)}, which it replaces"
            report.add(Kind.REPLACES, f"{words} {trouble}.", target, copy.buffer)
            break
    # The walks of both buffers find accesses during the flight; those that change places with the copy are found here.
    for buffer in (copy.source, copy.buffer):
        for access in accesses_of[buffer]:
            t = access.instruction
            if buffer == copy.source and not access.results:
                continue
            if (t < target and t >= copy.end) or (t > target and t <= copy.start):
                report.add(
                    Kind.REPLACES,
                    f"{words} is in flight from {copy.start} to {copy.end} and so changes places with "
                    f"{report.instruction(t)}, relative to {report.instruction(target)}, which it replaces.",
                    t,
                    buffer,
                )


def check_order(copies: list[Copy], loops: LoopNest, report: Report) -> None:
    """Reports copies that replace instructions in another order than that of the instructions.

    Where one writes a buffer that the other reads or writes, the copy that replaces the earlier instruction has to be
    complete before the other is issued. The walks do not see this: they take copies in the order of their flights.

    Args:
      copies: all copies that replace an instruction.
      loops: the loop nest.
      report: takes the violations.
    """
    users: dict[int, list[Copy]] = defaultdict(list)
    for copy in sorted(copies, key=lambda copy: copy.replaces):
        users[copy.source].append(copy)
        users[copy.buffer].append(copy)
    for buffer, ordered in users.items():
        for number, later in enumerate(ordered):
            for earlier in ordered[:number]:
                writes = buffer in (earlier.buffer, later.buffer)
                if not writes or earlier.replaces == later.replaces or loops.is_done_before(earlier, later):
                    continue
                # `check_replacement` reports a copy on the wrong side of where the other's instruction stands.
                if later.replaces <= earlier.start or earlier.replaces >= later.end:
                    continue
                report.add(
                    Kind.REPLACES,
                    f"copy {earlier.number} from {earlier.start} to {earlier.end} is not complete before copy "
                    f"{later.number} from {later.start} to {later.end} is issued: both use {report.buffer(buffer)}, "
                    f"and the instructions that they replace, {report.instruction(earlier.replaces)} and "
                    f"{report.instruction(later.replaces)}, come in this order.",
                    later.replaces,
                    buffer,
                )
