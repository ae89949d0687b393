"""Programs and mappings that bounds are held against: mappings use every freedom of the physics."""

import dataclasses
import random
from collections.abc import Iterator

import numpy as np
from programs import make_program
from random_mappings import random_mapping

from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.physics.cost import MSA
from mallocmuzero.env.physics.objective import ROBUST
from mallocmuzero.env.program.cycle_table import BY_TIME, WITHIN_SEEN, CycleTable, build_table
from mallocmuzero.env.program.mapping import COPY_FIELDS, PREFETCH, RESIDENCY_FIELDS, Mapping
from mallocmuzero.env.program.program import Program, all_hbm, replaced_pair
from mallocmuzero.env.verifier.verify import verify

# `w` is read twice, far apart; `x` needs its memory in between.
CHAIN = make_program(
    [
        ("use", 1.0, ["w"], ["a"]),
        ("busy", 3.0, ["a"], ["b"]),
        ("large", 1.0, ["x", "b"], ["c"]),
        ("idle", 3.0, ["c"], ["d"]),
        ("again", 0.0, ["w", "d"], ["out"]),
    ],
    {
        "w": {"size": 80, "input": True},
        "x": {"size": 64, "input": True},
        "a": 8,
        "b": 8,
        "c": 8,
        "d": 8,
        "out": {"size": 16, "output": True},
    },
)
COPIED = make_program(
    [("busy", 3.0, [], ["a"]), ("copy", 0.0, ["x"], ["y"]), ("use", 0.0, ["y", "a"], ["out"])],
    {"x": {"size": 56, "input": True}, "y": 56, "a": 8, "out": {"size": 8, "output": True}},
)


def with_copies(program: Program) -> Program:
    """Turns instructions with one operand and one result of equal size into synchronous copies."""
    opcodes = list(program.opcodes)
    for t in range(program.num_instructions):
        opcodes[t] = "copy"
        if replaced_pair(dataclasses.replace(program, opcodes=tuple(opcodes)), t) is None:
            opcodes[t] = program.opcodes[t]
    return dataclasses.replace(program, opcodes=tuple(opcodes))


def with_cycles(program: Program, rng: random.Random) -> Program:
    """Gives a program a table of arbitrary cycles, not monotonic, with pairs missing."""
    pairs: dict[tuple[int, int], int] = {}
    row = np.arange(program.num_instructions, dtype=np.int32)
    for t in range(program.num_instructions):
        count = int(program.access_start[t + 1] - program.access_start[t])
        if rng.random() < 0.1:
            row[t] = -1
            continue
        for placement in {0, *(rng.randrange(2**count) for _ in range(rng.randint(0, 5)))}:
            pairs[t, placement] = rng.choice([0, 10, 50, 100, 300])
    table: CycleTable = build_table(row, pairs, completion=rng.choice([WITHIN_SEEN, BY_TIME]))
    target = dataclasses.replace(program.target, clock_hz=100.0)
    return dataclasses.replace(program, cycles=table, target=target)


def any_mappings(program: Program, rng: random.Random) -> Iterator[Mapping]:
    """Yields mappings that verify: lines of play, and others with slices, replaced copies, cross-program prefetches."""
    yield all_hbm(program)
    for objective in (MSA, ROBUST) if program.cycles is not None else (MSA,):
        game = MallocGame(program, objective=objective, trivial_share=rng.choice([0.0, 1e-5]))
        while not game.done:
            game.step(rng.choice(np.flatnonzero(game.legal).tolist()))
        yield game.mapping()
    for _ in range(6):
        mapping = random_mapping(program, rng)
        for change in (unchanged, from_both, sliced, partly_kept, replacing, sliced):
            candidate = change(program, mapping, rng)
            if not verify(program, program.target, candidate):
                mapping = candidate
                yield mapping


def unchanged(program: Program, mapping: Mapping, rng: random.Random) -> Mapping:
    """Returns the mapping as it is."""
    return mapping


def from_both(program: Program, mapping: Mapping, rng: random.Random) -> Mapping:
    """Reads in HBM what always is there, even where the same instruction reads the buffer in fast memory too."""
    if program.hbm_accesses is None:
        return mapping
    return dataclasses.replace(mapping, access_fast=mapping.access_fast & ~program.hbm_accesses)


def sliced(program: Program, mapping: Mapping, rng: random.Random) -> Mapping:
    """Cuts a prefetch in two; the second slice may be issued, and take memory, later."""
    residencies, copies = mapping.residencies.tolist(), mapping.copies.tolist()
    rng.shuffle(copies)
    for copy in copies:
        buffer, direction, start, end, low, high, *_ = copy
        filled = [r for r in residencies if r[0] == buffer and r[1] == start + 1 and r[4:] == [low, high]]
        if direction == PREFETCH and filled and high - low > 1 and start < end:
            cut, later = rng.randint(low + 1, high - 1), rng.randint(start, end - 1)
            second, part = list(copy), list(filled[0])
            copy[5] = filled[0][5] = part[4] = second[4] = cut
            second[2], part[1] = later, later + 1
            if part[1] <= part[2]:
                return rebuilt(mapping, [*residencies, part], sorted([*copies, second], key=lambda c: c[2]))
    return mapping


def partly_kept(program: Program, mapping: Mapping, rng: random.Random) -> Mapping:
    """Keeps a part of a buffer from one residency to the next, and prefetches only the rest again."""
    residencies, copies = mapping.residencies.tolist(), mapping.copies.tolist()
    rng.shuffle(copies)
    for copy in copies:
        buffer, direction, start, _, low, high, *_ = copy
        again = [r for r in residencies if r[0] == buffer and r[1] == start + 1 and r[4:] == [low, high]]
        earlier = [r for r in residencies if r[0] == buffer and r[2] <= start and r[4:] == [low, high]]
        if direction == PREFETCH and again and earlier and high - low > 1:
            before = max(earlier, key=lambda r: r[2])
            copy[4] = cut = rng.randint(low + 1, high - 1)
            again[0][3] = before[3]
            kept = [[buffer, before[2] + 1, start, before[3], low, cut]] if before[2] < start else []
            return rebuilt(mapping, residencies + kept, copies)
    return mapping


def replacing(program: Program, mapping: Mapping, rng: random.Random) -> Mapping:
    """Replaces a synchronous copy by an asynchronous one, whose result lives in fast memory."""
    pairs = [(t, p) for t in range(program.num_instructions) if (p := replaced_pair(program, t)) is not None]
    if not pairs:
        return mapping
    t, (source, result) = rng.choice(pairs)
    steps = program.num_instructions
    fast = mapping.access_fast.copy()
    clear = [result, source] if rng.random() < 0.7 else [result]
    fast[np.isin(program.access_buffer, clear)] = False
    mine = np.flatnonzero(program.access_buffer == result)
    after = [a for a in mine.tolist() if program.access_instruction[a] > t]
    writes = [int(program.access_instruction[a]) for a in after if program.access_kind[a] != 0]
    until = min(writes, default=steps)
    reads = [a for a in after if program.access_instruction[a] < until]
    fast[reads] = True
    before = [int(program.access_instruction[a]) for a in mine.tolist() if program.access_instruction[a] < t]
    start = rng.randint(max(before, default=-1), t)
    first = min((int(program.access_instruction[a]) for a in reads), default=min(until, steps))
    if start >= first:
        return mapping
    end = rng.randint(start + 1, first)
    last = max([min(end, steps - 1), *(int(program.access_instruction[a]) for a in reads)])
    size, target = int(program.size[result]), program.target
    offset = rng.randrange(0, target.fast_bytes, target.alignment)
    moved = [c for c in mapping.copies.tolist() if c[0] not in clear and c[6] not in clear]
    moved.append([result, PREFETCH, start, end, 0, size, source, t])
    if program.is_output[result] and until == steps:
        last = steps - 1
        moved.append([result, 1, rng.randint(end, steps - 1) if end < steps else end - 1, steps, 0, size, result, -1])
    rows = [r for r in mapping.residencies.tolist() if r[0] not in clear]
    rows.append([result, start + 1, last, offset, 0, size])
    return rebuilt(dataclasses.replace(mapping, access_fast=fast), rows, sorted(moved, key=lambda c: c[2]))


def rebuilt(mapping: Mapping, residencies: list[list[int]], copies: list[list[int]]) -> Mapping:
    """Returns the mapping with other residencies and copies."""
    return dataclasses.replace(
        mapping,
        residencies=np.array(residencies, np.int64).reshape(-1, len(RESIDENCY_FIELDS)),
        copies=np.array(copies, np.int64).reshape(-1, len(COPY_FIELDS)),
    )
