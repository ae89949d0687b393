"""Random mappings: often legal, and where they are not, wrong in a small way."""

import random
from collections import defaultdict

import numpy as np

from mallocmuzero.env.program.extents import extents
from mallocmuzero.env.program.mapping import COPY_FIELDS, CROSS_PROGRAM, PREFETCH, RESIDENCY_FIELDS, WRITE_BACK, Mapping
from mallocmuzero.env.program.program import OPERAND, RESULT, Program


def random_mapping(program: Program, rng: random.Random) -> Mapping:
    """Returns a mapping that is often legal, and else breaks the rules in a small way."""
    access_fast = np.zeros(program.num_accesses, bool)
    residencies: list[list[int]] = []
    copies: list[list[int]] = []
    for buffer in rng.sample(range(program.num_buffers), program.num_buffers):
        if not program.fast_allowed[buffer]:
            continue
        mine, moves = _play_buffer(program, buffer, access_fast, rng)
        placed = _place(program, buffer, mine, residencies, rng)
        if placed is None:
            access_fast[program.access_buffer == buffer] = False
        else:
            residencies += placed
            copies += moves
    _let_go_in_loops(program, access_fast, residencies, copies, rng)
    table = np.array(residencies, np.int64).reshape(-1, len(RESIDENCY_FIELDS))
    moved = np.array(copies, np.int64).reshape(-1, len(COPY_FIELDS))
    if rng.random() < 0.5:
        _spoil(program, access_fast, table, moved, rng)
    return Mapping(program.sha256, access_fast, table, moved)


def _play_buffer(
    program: Program, buffer: int, access_fast: np.ndarray, rng: random.Random
) -> tuple[list[list[int]], list[list[int]]]:
    """Decides at each touch of a buffer; returns its residencies `[start, end]` and its copies."""
    spans: list[list[int]] = []
    moves: list[list[int]] = []
    touches: dict[int, list[int]] = defaultdict(list)
    for row in np.flatnonzero(program.access_buffer == buffer):
        touches[int(program.access_instruction[row])].append(int(row))
    size, last = int(program.size[buffer]), -1
    in_fast, in_hbm = False, bool(program.definition[buffer] < 0)
    for t, rows in touches.items():
        reads = any(program.access_kind[row] == OPERAND for row in rows)
        writes = any(program.access_kind[row] == RESULT for row in rows)
        fast = rng.random() < 0.7
        if fast and reads and in_fast:
            spans[-1][1] = t
        elif fast and reads and in_hbm and t > last and (t > 0 or last < 0):
            start = rng.randint(last, t - 1)
            end = rng.randint(start + 1, t)
            spans.append([start + 1, t])
            moves.append([buffer, PREFETCH, start, end, 0, size, buffer, -1])
        elif fast and not reads:
            spans.append([t, t])
        elif reads and not in_hbm:
            fast = True
            spans[-1][1] = t
        else:
            fast = False
        access_fast[rows] = fast
        if writes:
            in_fast, in_hbm = fast, not fast
            if fast and (program.is_output[buffer] or rng.random() < 0.4):
                end = rng.randint(t + 1, min(t + 2, program.num_instructions))
                moves.append([buffer, WRITE_BACK, t, end, 0, size, buffer, -1])
                spans[-1][1] = max(spans[-1][1], end - 1)
                in_hbm = True
                t = end
        else:
            in_fast = fast or in_fast
        last = max(last, t)
    if moves and moves[0][1] == PREFETCH and moves[0][2] == -1 and rng.random() < 0.3:
        moves[0][1] = CROSS_PROGRAM
        spans[0][1] = program.num_instructions - 1
    return spans, moves


def _place(
    program: Program, buffer: int, spans: list[list[int]], taken: list[list[int]], rng: random.Random
) -> list[list[int]] | None:
    """Gives every residency an offset that is free, and cuts some in two; None if it does not fit."""
    size, taken_bytes, target = int(program.size[buffer]), int(program.fast_size[buffer]), program.target
    placed: list[list[int]] = []
    for start, end in spans:
        low = int(program.reserved[start : end + 1].max(initial=0))
        offsets = list(range(target.align(low), target.fast_bytes - taken_bytes + 1, target.alignment))
        rng.shuffle(offsets)
        for offset in offsets:
            others = extents(program, np.array(taken + placed, np.int64).reshape(-1, 6)).tolist()
            if all(e < start or end < s or o + h <= offset or offset + taken_bytes <= o for _, s, e, o, _, h in others):
                break
        else:
            return None
        if end > start and rng.random() < 0.2:
            middle = rng.randint(start, end - 1)
            placed += [[buffer, start, middle, offset, 0, size], [buffer, middle + 1, end, offset, 0, size]]
        elif size > 4 and size == taken_bytes and rng.random() < 0.2:
            cut = rng.randint(1, size - 1)
            placed += [[buffer, start, end, offset, 0, cut], [buffer, start, end, offset, cut, size]]
        else:
            placed.append([buffer, start, end, offset, 0, size])
    return placed


def _let_go_in_loops(
    program: Program, access_fast: np.ndarray, residencies: list[list[int]], copies: list[list[int]], rng: random.Random
) -> None:
    """Gives up some residencies in the middle of a loop's body, and fetches most of them again before it ends."""
    for row in list(residencies):
        buffer, start, end, offset, low, high = row
        for first, last in zip(program.loop_first.tolist(), program.loop_last.tolist(), strict=True):
            if not (start <= first and last <= end and last - first >= 2) or rng.random() < 0.4:
                continue
            left, back = sorted(rng.sample(range(first, last + 1), 2))
            if back == left + 1:
                continue
            row[2] = left
            residencies.append([buffer, back, end, offset, low, high])
            between = (program.access_instruction > left) & (program.access_instruction < back)
            access_fast[(program.access_buffer == buffer) & between] = False
            if rng.random() < 0.8:
                copies.append([buffer, PREFETCH, back - 1, rng.choice([back, last, last + 1]), low, high, buffer, -1])
            if rng.random() < 0.5:
                copies.append([buffer, WRITE_BACK, rng.randint(first, left), left + 1, low, high, buffer, -1])
            break


def _spoil(
    program: Program, access_fast: np.ndarray, residencies: np.ndarray, copies: np.ndarray, rng: random.Random
) -> None:
    """Changes one thing a little."""
    choice = rng.randrange(5)
    if choice == 0 and len(access_fast):
        access_fast[rng.randrange(len(access_fast))] ^= True
    elif choice in (1, 2) and len(residencies):
        residencies[rng.randrange(len(residencies)), rng.choice([1, 2, 3])] += rng.choice([-1, 1, 8])
    elif len(copies):
        copies[rng.randrange(len(copies)), rng.choice([2, 3])] += rng.choice([-1, 1])
