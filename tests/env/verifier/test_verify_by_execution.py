"""The verifier against brute force: random mappings are executed byte by byte, loops and all.

Whatever verifies must execute without one wrong read, whether a copy moves its bytes when it is issued or when it is
done; and a mapping whose only faults are stale reads must show one when executed.
"""

import dataclasses
import random
from collections import defaultdict
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import TARGET, Instruction, Loop, make_program, programs
from random_mappings import random_mapping

from mallocmuzero.env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program
from mallocmuzero.env.verifier import dataflow
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.verifier.violation import Kind, Violation

STALE = {Kind.FAST_CONTENT, Kind.HBM_CONTENT, Kind.LOOP_CONTENT, Kind.OUTPUT}


def trace(program: Program, rng: random.Random) -> list[int]:
    """Returns the instructions as they run, every loop twice or more, and of every conditional some branch."""

    def body(first: int, last: int, loop: int) -> list[int]:
        steps: list[int] = []
        t = first
        while t <= last:
            inner = [n for n in range(len(program.loop_trips)) if n > loop and program.loop_first[n] == t]
            inner = [n for n in inner if program.loop_parent[n] == loop]
            if inner:
                end = int(program.loop_last[inner[0]])
                if program.conditional is not None and program.conditional[inner[0]]:
                    branch = rng.choice(np.flatnonzero(program.loop_parent == inner[0]).tolist())
                    steps += body(int(program.loop_first[branch]), int(program.loop_last[branch]), branch)
                    t = end + 1
                    continue
                for _ in range(max(2, int(program.loop_trips[inner[0]]))):
                    steps += body(t, end, inner[0])
                t = end + 1
            else:
                steps.append(t)
                t += 1
        return steps

    return body(0, program.num_instructions - 1, -1)


class Machine:
    """Memories whose bytes are tags: every write makes a new one, and garbage is 0.

    The fast memory of a second core lies behind that of the first, and holds second parts of what is split.
    """

    def __init__(self, program: Program, mapping: Mapping, eager: bool, seed: int = 0) -> None:
        self.program, self.mapping, self.eager = program, mapping, eager
        self.rng = random.Random(seed)
        none = np.zeros(len(program.loop_trips), bool)
        self.conditionals = np.flatnonzero(none if program.conditional is None else program.conditional).tolist()
        self.tag = 1
        self.value = [0] * program.num_buffers
        self.hbm = [np.zeros(size, np.int64) for size in program.size]
        self.fast = np.zeros(2 * program.target.fast_bytes, np.int64)
        for buffer in np.flatnonzero(program.definition < 0):
            self.value[buffer] = self.new_tag()
            self.hbm[buffer][:] = self.value[buffer]
        self.wrong: list[str] = []
        self.flying: dict[int, np.ndarray | None] = {}
        # The memories and addresses at which a collective took hold of a buffer, by that access.
        self.taken: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
        self.ends = dict(program.holds.tolist())

    def new_tag(self) -> int:
        self.tag += 1
        return self.tag

    def places(self, buffer: int, t: int, low: int = 0, high: int | None = None) -> dict[int, np.ndarray]:
        """Returns, per offset at which bytes `low..high` of a buffer are all resident during `t`, their addresses."""
        high = int(self.program.size[buffer]) if high is None else high
        held: dict[int, set[int]] = defaultdict(set)
        for b, start, end, offset, first, last in self.mapping.residencies.tolist():
            if b == buffer and start <= t <= end:
                held[offset] |= set(range(first, last))
        return {o: self.addresses(buffer, o, low, high) for o, has in held.items() if has >= set(range(low, high))}

    def addresses(self, buffer: int, offset: int, low: int, high: int) -> np.ndarray:
        bytes_ = np.arange(low, high)
        part = 0 if self.program.split is None else int(self.program.split[buffer])
        return offset + np.where(bytes_ < (part or high), bytes_, bytes_ - part + self.program.target.fast_bytes)

    def run(self) -> list[str]:
        steps = trace(self.program, self.rng)
        self.issue(-1, steps[0], {PREFETCH, CROSS_PROGRAM})
        for number, t in enumerate(steps):
            for border in self.entered(t):
                self.complete(border)
                self.release(border, t)
            self.fast[: self.program.reserved[t]] = 0
            self.execute(t)
            following = steps[number + 1] if number + 1 < len(steps) else t + 1
            self.complete_with_body(t, following)
            # A write-back may still read what leaves fast memory here; a prefetch fills what comes after it.
            left = self.left(t, following)
            for border in left:
                self.issue(border, max(following, border + 1) if following > t else following, {WRITE_BACK})
            self.release(t, following)
            for border in left:
                self.issue(
                    border, max(following, border + 1) if following > t else following, {PREFETCH, CROSS_PROGRAM}
                )
        self.complete(self.program.num_instructions)
        for buffer in np.flatnonzero(self.program.is_output):
            if np.any(self.hbm[buffer] != self.value[buffer]):
                self.wrong.append(f"output {buffer}")
        return self.wrong

    def entered(self, t: int) -> set[int]:
        """Returns `t`, and the first instruction of a conditional if a branch of it begins with `t`."""
        loops = self.program.loop_first, self.program.loop_parent
        opened = [
            int(parent) for first, parent in zip(*loops, strict=True) if first == t and parent in self.conditionals
        ]
        return {t, *(int(self.program.loop_first[loop]) for loop in opened)}

    def left(self, t: int, following: int) -> list[int]:
        """Returns `t`, and the last instructions of the conditionals that are left after it."""
        spans = [(int(self.program.loop_first[loop]), int(self.program.loop_last[loop])) for loop in self.conditionals]
        return sorted({t, *(last for first, last in spans if first <= t <= last and not first <= following <= last)})

    def execute(self, t: int) -> None:
        rows = range(self.program.access_start[t], self.program.access_start[t + 1])
        for row in rows:
            buffer, fast = int(self.program.access_buffer[row]), self.mapping.access_fast[row]
            if self.program.access_kind[row] == OPERAND:
                self.let_go(row, buffer)
                found = [self.fast[a] for a in self.places(buffer, t).values()] if fast else [self.hbm[buffer]]
                if not any(np.all(bytes_ == self.value[buffer]) for bytes_ in found):
                    self.wrong.append(f"read of {buffer} at {t}")
                self.take(row, buffer, t)
        for row in rows:
            buffer, fast = int(self.program.access_buffer[row]), self.mapping.access_fast[row]
            if self.program.access_kind[row] == RESULT:
                self.value[buffer] = self.new_tag()
                if fast:
                    places = list(self.places(buffer, t).values())
                    if len(places) == 1:
                        self.fast[places[0]] = self.value[buffer]
                else:
                    self.hbm[buffer][:] = self.value[buffer]
                self.take(row, buffer, t)

    def take(self, row: int, buffer: int, t: int) -> None:
        """Remembers where a collective that begins reads or writes a buffer."""
        if row in self.ends:
            of_fast = [(self.fast, addresses) for addresses in self.places(buffer, t).values()]
            of_hbm = [(self.hbm[buffer], np.arange(len(self.hbm[buffer])))]
            places = of_fast if self.mapping.access_fast[row] else of_hbm
            self.taken[row] = [(memory, a) for memory, a in places if np.all(memory[a] == self.value[buffer])]

    def let_go(self, row: int, buffer: int) -> None:
        """Ends a collective: it has needed what it read, and now has written the rest."""
        since = -1 if self.program.held_since is None else int(self.program.held_since[row])
        if since < 0:
            return
        if self.program.access_kind[since] == RESULT:
            self.value[buffer] = self.new_tag()
            for memory, addresses in self.taken[since][:1]:
                memory[addresses] = self.value[buffer]
        elif not any(np.all(memory[addresses] == self.value[buffer]) for memory, addresses in self.taken[since]):
            self.wrong.append(f"a collective that reads {buffer} until {row}")

    def issue(self, t: int, following: int, directions: set[int]) -> None:
        """Issues the copies that start after `t`; after a loop's last instruction, when the loop is left."""
        for copy, (_, direction, start, end, *_) in enumerate(self.mapping.copies.tolist()):
            if start == t and direction in directions and (following > t or end <= t):
                self.flying[copy] = None
                if self.eager:
                    self.move(copy)
                else:
                    self.flying[copy] = self.source(copy).copy()

    def source(self, copy: int) -> np.ndarray:
        buffer, direction, start, _, low, high, *_ = self.mapping.copies[copy].tolist()
        if direction != WRITE_BACK:
            return self.hbm[buffer][low:high]
        places = list(self.places(buffer, start, low, high).values())
        good = [a for a in places if np.all(self.fast[a] == self.value[buffer])]
        return self.fast[(good or places)[0]] if places else np.zeros(high - low, np.int64)

    def move(self, copy: int, late: bool = False) -> None:
        buffer, direction, start, end, low, high, *_ = self.mapping.copies[copy].tolist()
        data = self.flying[copy] if late else self.source(copy)
        if direction == WRITE_BACK:
            self.hbm[buffer][low:high] = data
            return
        last = min(end, self.program.num_instructions - 1)
        for a, b in zip(self.program.loop_first, self.program.loop_last, strict=True):
            if a <= start < b and end == b + 1:  # due with the body
                last = int(b)
        # A residency that begins right after the start is the one meant, if there are several. Prefetches that start
        # together fill one each, the last to end the one that lasts longest.
        until = {r[3]: r[2] for r in self.mapping.residencies.tolist() if r[0] == buffer and r[1] == start + 1}
        together = [
            (-other[3], index)
            for index, other in enumerate(self.mapping.copies.tolist())
            if [*other[:3], *other[4:6]] == [buffer, direction, start, low, high]
        ]
        places = self.places(buffer, last, low, high)
        chosen = sorted(places, key=lambda o: -until.get(o, -1))
        rank = sorted(together).index((-end, copy))
        for offset in chosen[min(rank, len(chosen) - 1) :][:1]:
            self.fast[places[offset]] = data

    def complete(self, t: int) -> None:
        for copy in [c for c in self.flying if self.mapping.copies[c, 3] == t]:
            if not self.eager:
                self.move(copy, late=True)
            del self.flying[copy]

    def complete_with_body(self, t: int, following: int) -> None:
        """Completes what was issued in a loop whose body ends with `t` and is due then."""
        for first, last in zip(self.program.loop_first, self.program.loop_last, strict=True):
            if first < following <= last:  # only a loop inside it goes round
                continue
            for copy in [c for c in self.flying if self.mapping.copies[c, 3] == t + 1 == last + 1]:
                if first <= self.mapping.copies[copy, 2] < last:
                    if not self.eager:
                        self.move(copy, late=True)
                    del self.flying[copy]

    def release(self, t: int, following: int) -> None:
        """Drops the values that are no longer resident at the same place."""
        owner: dict[int, int] = {}
        for b, start, end, offset, low, high in self.mapping.residencies.tolist():
            if start <= following <= end:
                owner |= dict.fromkeys(self.addresses(b, offset, low, high).tolist(), b * 1000 + offset)
        for b, start, end, offset, low, high in self.mapping.residencies.tolist():
            if start <= t <= end:
                for address in self.addresses(b, offset, low, high).tolist():
                    if owner.get(address) != b * 1000 + offset:
                        self.fast[address] = 0


def is_of_copy(violation: Violation) -> bool:
    """Returns whether a copy moves what is stale; it may be that nothing reads it afterwards."""
    return violation.message.startswith("Copy ")


@settings(max_examples=300, deadline=None)
@given(programs(max_instructions=7), st.integers(0, 2**32))
def test_what_verifies_executes(program: Program, seed: int) -> None:
    mapping = random_mapping(program, random.Random(seed))
    violations = verify(program, program.target, mapping)
    if not violations:
        for eager in (True, False):
            assert Machine(program, mapping, eager).run() == []
    elif {violation.kind for violation in violations} <= STALE and not any(map(is_of_copy, violations)):
        assert any(Machine(program, mapping, eager).run() for eager in (True, False))


@given(programs(max_instructions=7), st.integers(0, 2**32))
def test_what_needs_no_walk_has_no_violation(program: Program, seed: int) -> None:
    """Buffers that are passed without a walk are those in which a walk finds nothing."""
    mapping = random_mapping(program, random.Random(seed))
    violations = verify(program, program.target, mapping)
    with patch.object(dataflow, "is_plain", lambda *_: False):
        assert verify(program, program.target, mapping) == violations


@st.composite
def programs_with_a_conditional(draw: st.DrawFn) -> Program:
    """Returns a strategy for small programs with a conditional of two or three branches, some of them empty."""
    sizes = st.sampled_from([8, 16, 32])
    before, branches, after = draw(st.integers(1, 2)), draw(st.integers(2, 3)), draw(st.integers(1, 2))
    buffers: dict[str, dict[str, Any]] = {f"input.{n}": {"size": draw(sizes), "input": True} for n in range(2)}
    buffers["result"] = {"size": draw(sizes), "output": draw(st.booleans())}
    instructions: list[Instruction] = []

    def compute(readable: list[str], results: list[str]) -> str:
        name = f"buffer.{len(instructions)}"
        if not results:
            buffers[name] = {"size": draw(sizes)}
        operands = draw(st.lists(st.sampled_from(readable), min_size=1, max_size=2))
        instructions.append((f"fusion.{len(instructions)}", 1.0, operands, results or [name]))
        return name

    shared = list(buffers)[:2]
    for _ in range(before):
        shared.append(compute(shared, []))
    # The branches write the result over what may be there before.
    over = draw(st.booleans())
    if over:
        instructions.append((f"fusion.{len(instructions)}", 1.0, shared[:1], ["result"]))
    loops: list[Loop] = []
    opening = len(instructions)
    for _ in range(branches):
        first = len(instructions)
        instructions.append((f"parameter.{first}", 0.0, [], []))
        if not over or draw(st.booleans()):
            known = shared + ["result"] * over
            for _ in range(draw(st.integers(0, 2))):
                known = [*known, compute(known, [])]
            compute(known, ["result"])
        loops.append((first, len(instructions) - 1, 1))
    loops.insert(0, (opening, len(instructions) - 1, 1))
    for _ in range(after):
        shared.append(compute([*shared, "result"], []))
    buffers[shared[-1]]["output"] = True
    conditional = np.array([True] + [False] * branches)
    return make_program(
        instructions, buffers, dataclasses.replace(TARGET, fast_bytes=64), loops, conditional=conditional
    )


@settings(max_examples=400, deadline=None)
@given(programs_with_a_conditional(), st.integers(0, 2**32))
def test_what_verifies_executes_whichever_branch_is_taken(program: Program, seed: int) -> None:
    mapping = random_mapping(program, random.Random(seed))
    violations = verify(program, program.target, mapping)
    runs = [(eager, path) for eager in (True, False) for path in range(12)]
    if not violations:
        for eager, path in runs:
            assert Machine(program, mapping, eager, path).run() == []
    elif {violation.kind for violation in violations} <= STALE and not any(map(is_of_copy, violations)):
        assert any(Machine(program, mapping, eager, path).run() for eager, path in runs)
