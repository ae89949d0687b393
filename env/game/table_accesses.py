"""Columns that link an access to the others of its buffer, and what follows from later ones."""

import numpy as np
from numpy.typing import NDArray

from ..compiled.struct import Rows
from ..program.program import OPERAND, RESULT, Program
from .records import NEVER, READ_LATER, WRITTEN_OUT


def chain(
    program: Program,
    holder: NDArray[np.int64],
    access: Rows,
    buffer: Rows,
) -> NDArray[np.int64]:
    """Fills the columns that link an access to the others of its buffer, and a buffer to its last accesses.

    Returns:
      `[N]` the first access to each buffer, -1 if there is none.
    """
    owners, step, held = (column.tolist() for column in (program.access_buffer, program.access_instruction, holder))
    accesses, buffers = len(owners), program.num_buffers
    since = [-1] * accesses if program.held_since is None else program.held_since.tolist()
    first, last, following, tied = [-1] * buffers, [-1] * buffers, [-1] * accesses, [-1] * accesses
    for index, owner in enumerate(owners):
        previous = last[owner]
        if previous < 0:
            first[owner] = index
        else:
            following[previous] = index
            if held[index] >= 0 and held[index] == held[previous]:
                tied[index] = previous if tied[previous] < 0 else tied[previous]
            elif step[previous] == step[index]:
                tied[index] = previous
            elif since[index] >= 0:
                tied[index] = since[index] if tied[since[index]] < 0 else tied[since[index]]
        last[owner] = index
    access["next"], access["tied_to"], buffer["last"] = following, tied, last
    results = np.flatnonzero(program.access_kind == RESULT)
    buffer["last_result"][program.access_buffer[results]] = results  # the last one stands
    return np.array(first, np.int64)


def look_ahead(access: Rows) -> None:
    """Fills `ahead`: the benefits from an access to the end of its buffer, or to where a stay has to end."""
    ahead: list[float] = access["benefit"].tolist()
    following, ends = access["next"].tolist(), access["ends"].tolist()
    for index in range(len(ahead) - 1, -1, -1):
        if following[index] >= 0 and ends[index] == NEVER:
            ahead[index] += ahead[following[index]]
    access["ahead"] = ahead


def mark_in_hbm(program: Program, access: Rows, writes_back: NDArray[np.int64]) -> None:
    """Fills `in_hbm` and `needed`. `writes_back[T + 1]`: whether a write-back may be issued after an instruction."""
    stays_end = access["ends"] != NEVER
    if program.hbm_accesses is None and not stays_end.any():
        return
    _mark_needed(access, stays_end)
    too_late = (access["needed"] == 1) & (access["kind"] == RESULT) & (writes_back[access["instruction"]] == 0)
    root = np.where(access["tied_to"] >= 0, access["tied_to"], np.arange(len(access)))
    while (root != root[root]).any():  # what an instruction touches several times is tied in a chain
        root = root[root]
    decided_by = np.zeros(len(access), bool)
    decided_by[root[~program.access_allowed | too_late]] = True
    while True:
        in_hbm = decided_by[root]
        # A collective that runs meanwhile reads the buffer there too.
        beside = access["beside"][in_hbm & (access["beside"] >= 0)]
        if decided_by[root[beside]].all():
            break
        decided_by[root[beside]] = True
    access["in_hbm"] = in_hbm
    _mark_needed(access, stays_end)


def _mark_needed(access: Rows, stays_end: NDArray[np.bool_]) -> None:
    """Fills `needed`, given `in_hbm` and `[A]` whether a stay ends between an access and the next.

    HBM has to hold the value if a stay ends, or if one of the reads before the next write is in HBM or ends a stay.
    """
    by_buffer = np.argsort(access["buffer"], kind="stable")
    owner = access["buffer"][by_buffer]
    writes = access["kind"][by_buffer] != OPERAND
    in_hbm = (access["in_hbm"][by_buffer] == 1) | stays_end[by_buffer]
    in_hbm_next, written_next = first_from(in_hbm)[1:], first_from(writes)[1:]
    last = np.searchsorted(owner, owner, "right") - 1
    access["needed"][by_buffer] = stays_end[by_buffer] | ((in_hbm_next < written_next) & (in_hbm_next <= last))


def mark_read_later(program: Program, access: Rows, buffer: Rows, instruction: Rows) -> None:
    """Fills `carried` of accesses in a loop that carries their buffer: is its last value read later, or an output?"""
    for index in np.flatnonzero(access["carried"])[::-1]:
        owner, until, following = access["buffer"][index], access["until"][index], access["next"][index]
        if following >= 0 and access["instruction"][following] <= until:
            access["carried"][index] = access["carried"][following]
        elif access["needed"][index] or (program.is_output[owner] and buffer["last_result"][owner] <= index):
            access["carried"][index] = WRITTEN_OUT
            instruction["writes_out"][until] = 1
        elif following >= 0 and access["kind"][following] == OPERAND:
            access["carried"][index] = READ_LATER
            instruction["writes_out"][until] = 1


def first_from(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Returns `[n + 1]` the first place from each one on that is `marked[n]`; `n` if there is none."""
    places = np.append(np.flatnonzero(marked), [len(marked)])
    return places[np.searchsorted(places, np.arange(len(marked) + 1))].astype(np.int64)
