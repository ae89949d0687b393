"""Features of a program's accesses that no game changes: the static part of the observation."""

import numpy as np
from numpy.typing import NDArray

from ..game.plan import constant_accesses
from ..game.tables import Tables
from ..program.program import OPERAND

STATIC_FEATURES = 27
LIMIT = 8.0


def signed_log(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns `sign(x) log(1 + |x|)`."""
    return np.sign(x) * np.log1p(np.abs(x))


def static_features(tables: Tables, accesses: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns `[C, STATIC_FEATURES]` of `accesses[C]`, which are sorted by buffer, then by time.

    The features have no scale and no names: times are relative to the program's, or to its mean instruction, bytes to
    those of fast memory, benefits to their mean.
    """
    access, buffer, instruction = tables.access[accesses], tables.buffer, tables.instruction
    steps = len(instruction) - 1
    owner, step = access["buffer"], access["instruction"]
    clock = instruction["clock_s"]
    total_s, mean_s = max(float(clock[-1]), 1e-30), max(float(clock[-1]) / max(steps, 1), 1e-30)
    benefit = access["benefit"]
    mean_benefit = np.maximum(benefit, 0.0).sum() / max(len(accesses), 1) + 1e-30
    by_buffer = np.bincount(owner, benefit, minlength=len(buffer))[owner]
    of_buffer = np.bincount(owner, minlength=len(buffer))[owner]
    live = np.concatenate([[0.0], np.cumsum(instruction["live"][:steps])])
    all_hbm = instruction["all_hbm_s"]
    idle = np.maximum(0.0, all_hbm - instruction["bytes"] / float(tables.rates.hbm))
    size = buffer["aligned"][owner] / float(tables.limits.fast_bytes)

    def pause(first: NDArray[np.int64], last: NDArray[np.int64], exists: NDArray[np.bool_]) -> list[NDArray]:
        seconds = (clock[last] - clock[np.minimum(first + 1, steps)]) / total_s
        length = last - first
        return [
            exists.astype(np.float64),
            np.where(exists, signed_log(np.maximum(seconds, 0.0) * 100), 0.0),
            np.where(exists, signed_log(length.astype(np.float64)), 0.0),
            np.where(exists, (live[last] - live[first]) / np.maximum(length, 1), 0.0),
        ]

    same = np.zeros(len(accesses) + 1, bool)
    same[1:-1] = owner[1:] == owner[:-1]
    after, before = np.append(step[1:], 0), np.insert(step[:-1], 0, 0)
    after, before = np.where(same[1:], after, step), np.where(same[:-1], before, step)
    until = clock[np.minimum(after + 1, steps)] - clock[step]
    density = np.maximum(benefit, 0.0) / (size * np.maximum(until / total_s, 1e-6))
    columns = [
        access["kind"] != OPERAND,
        buffer["is_output"][owner],
        buffer["is_input"][owner],
        constant_accesses(tables)[accesses],
        signed_log(size * 100) / 3,
        signed_log(benefit / mean_benefit),
        signed_log(by_buffer / mean_benefit),
        signed_log(buffer["size"][owner] / float(tables.rates.hbm) / mean_s),
        np.log(of_buffer),
        access["carried"] > 0,
        access["tied_to"] >= 0,
        signed_log(instruction["live"][step]),
        step / max(steps, 1),
        signed_log(all_hbm[step] / mean_s),
        signed_log(instruction["compute_s"][step] / mean_s),
        signed_log(idle[step] / mean_s),
        np.log(np.maximum(instruction["weight"][step], 1e-9)),
        *pause(step, after, same[1:]),
        *pause(before, step, same[:-1]),
        signed_log(density / (mean_benefit * len(accesses))),
        benefit > 0,
    ]
    stacked = np.stack([np.asarray(column, np.float64) for column in columns], axis=1)
    return np.clip(np.nan_to_num(stacked), -LIMIT, LIMIT).astype(np.float32)
