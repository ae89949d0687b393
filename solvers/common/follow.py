"""Following a mapping in the game: as a plan, with hints at its offsets and times, and with the slack that suits it."""

import itertools

import numpy as np
from numpy.typing import NDArray

from ...env.game import kernels
from ...env.game.game import MallocGame
from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.outcome import make_scoring
from ...env.game.plan import CROSS_PROGRAM_FETCH, TO_THE_END, WAIT, Plan, play_until
from ...env.game.records import NEVER
from ...env.program.mapping import CROSS_PROGRAM, PREFETCH, WRITE_BACK, Mapping
from ...env.program.program import OPERAND, RESULT, Program

# Slacks of prefetches to try in this order, in multiples of a copy's need. XLA prefers twice the need, too.
SLACKS = (2.0, 1.0, 5.0, 8.0)
# Under `robust` a wait may cost ten times its benefits.
PATIENCE = 10.0


def plan_of_mapping(program: Program, mapping: Mapping) -> Plan:
    """Returns the plan `[A]` that asks at every access for the mapping's memory, at the price of any wait."""
    fast, kind = mapping.access_fast, program.access_kind
    plan = np.where(fast, np.where(kind == OPERAND, WAIT, NO_COPY), DROP).astype(np.int8)
    written_back = {(row[0], row[2]) for row in mapping.copies.tolist() if row[1] == WRITE_BACK}
    for access in np.flatnonzero(fast & (kind != OPERAND)).tolist():
        if (int(program.access_buffer[access]), int(program.access_instruction[access])) in written_back:
            plan[access] = COPY
    for buffer in mapping.copies[mapping.copies[:, 1] == CROSS_PROGRAM, 0].tolist():
        reads = np.flatnonzero(fast & (program.access_buffer == buffer) & (kind == OPERAND))
        plan[reads[:1]] = CROSS_PROGRAM_FETCH
    return plan


def hints_of_mapping(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A, 3]` the hints with which games follow a mapping, columns `records.HINTS`: for each access the offset
    at which the mapping serves it from fast memory, or -1; the instruction right after which it issues the prefetch for
    it (of a sliced one the first slice), and the instruction before which the write-back after it is complete, or
    `NEVER`."""
    return np.stack([_offsets(program, mapping), *_copies(program, mapping)], axis=1)


def without_times(hints: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns hints `[A, 3]` with the same offsets, and the times of copies left to the game."""
    left = np.full_like(hints, NEVER)
    left[:, 0] = hints[:, 0]
    return left


def preferences_of_mapping(program: Program, mapping: Mapping) -> NDArray[np.int8]:
    """Returns `[A]` the moves nearest to a mapping: the plan of `plan_of_mapping` without `WAIT`."""
    preferences = plan_of_mapping(program, mapping)
    waits = preferences == WAIT
    preferences[waits] = np.where(program.access_kind == OPERAND, COPY, NO_COPY)[waits]
    return preferences


def follow_best(game: MallocGame, mapping: Mapping) -> None:
    """Resets `game` with the slack of `SLACKS`, and with or without the hinted times of copies, whichever follows
    `mapping` with the least latency.

    Under `robust` the game's clock blends two cost models that disagree on run times, so no slack is best for all
    programs: with too little, copies come late under one model; with too much, they hold memory that others need. With
    the mapping's own times, most programs follow it nearly exactly; on some, the game's times are better than XLA's.
    """
    preferences = preferences_of_mapping(game.program, mapping)
    scoring, moves = make_scoring(game.judge), np.zeros(len(game.tables.access), np.int8)
    hints = game.tables.hints()
    rules = list(itertools.product((hints, without_times(hints)), SLACKS))
    seconds = []
    for hinted, slack in rules:
        game.tables.set_hints(hinted)
        game.tables.rates.slack = slack
        kernels.reset(game.tables, game.state)
        play_until(game.tables, game.state, game.options, preferences, moves, TO_THE_END)
        seconds.append(kernels.judge(game.tables, scoring, game.state))
    hinted, slack = rules[int(np.argmin(seconds))]
    game.tables.set_hints(hinted)
    game.tables.rates.slack = slack
    game.reset()


def _offsets(program: Program, mapping: Mapping) -> NDArray[np.int64]:
    """Returns `[A]` the offset at which a mapping serves each access from fast memory, or -1."""
    offsets = np.full(program.num_accesses, -1, np.int64)
    whole = mapping.residencies[mapping.residencies[:, 4] == 0]  # of a sliced buffer, the first slice
    order = np.lexsort((whole[:, 1], whole[:, 0]))
    buffer, start, end, offset = whole[order][:, :4].T
    # The last residency of the buffer that begins no later than the access.
    span = program.num_instructions + 2
    place = (
        np.searchsorted(
            buffer * span + start + 1, program.access_buffer * span + program.access_instruction + 1, "right"
        )
        - 1
    )
    for access in np.flatnonzero(mapping.access_fast & (place >= 0)).tolist():
        row = place[access]
        if buffer[row] == program.access_buffer[access] and program.access_instruction[access] <= end[row]:
            offsets[access] = offset[row]
    return offsets


def _copies(program: Program, mapping: Mapping) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns `[A]` the issue of the prefetch for each access, and `[A]` the due instruction of the next write-back."""
    issued, due = (np.full(program.num_accesses, NEVER, np.int64) for _ in range(2))
    span = program.num_instructions + 2
    key = program.access_buffer.astype(np.int64) * span + program.access_instruction
    buffer, direction, start, end = mapping.copies[:, :4].T
    # A prefetch serves the first access from its end on, a write-back follows the last result up to its start.
    reads = np.argsort(key, kind="stable")
    fetched = direction == PREFETCH
    place = np.searchsorted(key[reads], (buffer * span + end)[fetched])
    served = reads[np.minimum(place, len(reads) - 1)]
    known = program.access_buffer[served] == buffer[fetched]
    np.minimum.at(issued, served[known], start[fetched][known])
    writes = reads[program.access_kind[reads] == RESULT]
    out = direction == WRITE_BACK
    place = np.searchsorted(key[writes], (buffer * span + start)[out], "right") - 1
    left = writes[np.maximum(place, 0)]
    known = (place >= 0) & (program.access_buffer[left] == buffer[out])
    due[left[known]] = end[out][known]
    return issued, due
