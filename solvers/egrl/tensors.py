"""A program as EGRL sees it: a graph of tensors, each with a home in memory.

A tensor is a buffer that a plan may place. It has three homes, as the paper's chip has three memories; a home is the
preference of all accesses to the tensor:

- `HBM`: no access is fast.
- `FAST`: results stay in fast memory; operands are prefetched if they are not there.
- `BOTH`: results are written back as well, so that the tensor may be evicted and prefetched again; a program input that
  nothing writes is prefetched across programs.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...env.game.moves import COPY, DROP, NO_COPY
from ...env.game.plan import CROSS_PROGRAM_FETCH, Plan
from ...env.game.tables import Tables
from ...env.program.program import OPERAND
from ..common.task import Task

HBM, FAST, BOTH = range(3)
NUM_HOMES = 3
NUM_FEATURES = 15
Homes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tensors:
    """The tensors of a program. Shapes: `K` tensors, `A` accesses.

    Attributes:
      node: `[A]` tensor of each access that a plan decides, -1 for other accesses.
      preferences: `[A, NUM_HOMES]` preference of an access under each home.
      moved: `[A]` bytes that the access moves in all loop trips; 0 where a plan does not decide.
      features: `[K, NUM_FEATURES]` float32.
      edges: `[K, K]` whether one instruction accesses both tensors.
      first: `[K]` first instruction that accesses the tensor.
    """

    node: NDArray[np.int64]
    preferences: NDArray[np.int8]
    moved: NDArray[np.float64]
    features: NDArray[np.float32]
    edges: NDArray[np.bool_]
    first: NDArray[np.int64]

    @property
    def count(self) -> int:
        """`K`."""
        return len(self.first)

    def plan(self, homes: Homes) -> Plan:
        """Returns the plan that gives tensors `[K]` their homes."""
        chosen = np.where(self.node >= 0, homes[self.node], HBM) if self.count else np.zeros(len(self.node), np.int64)
        return self.preferences[np.arange(len(self.node)), chosen]

    def denied(self, homes: Homes, fast: NDArray[np.int8]) -> float:
        """Returns the share of bytes moved whose access is fast by `homes` and was not in the game.

        Args:
          homes: `[K]`.
          fast: `[A]` whether the game made an access fast.
        """
        wanted = self.plan(homes) != DROP
        total = float(self.moved.sum())
        return float(self.moved[wanted & (fast == 0)].sum()) / total if total > 0 else 0.0


def make_tensors(task: Task) -> Tensors:
    """Returns the tensors of a task's program."""
    tables = task.tables
    owner, kind = tables.access["buffer"], tables.access["kind"]
    buffers = np.unique(owner[task.free])
    index = np.full(len(tables.buffer), -1, np.int64)
    index[buffers] = np.arange(len(buffers))
    node = np.full(len(owner), -1, np.int64)
    node[task.free] = index[owner[task.free]]
    constant = (tables.buffer["is_input"] == 1) & (tables.buffer["last_result"] < 0)
    preferences = np.full((len(owner), NUM_HOMES), DROP, np.int8)
    preferences[:, FAST] = np.where(kind == OPERAND, COPY, NO_COPY)
    preferences[:, BOTH] = np.where(constant[owner], CROSS_PROGRAM_FETCH, COPY)
    weight = tables.instruction["weight"][tables.access["instruction"]]
    moved = np.where(node >= 0, tables.access["bytes"] * weight, 0.0)
    first = np.full(len(buffers), tables.limits.instructions, np.int64)
    np.minimum.at(first, node[task.free], tables.access["instruction"][task.free])
    return Tensors(
        node, preferences, moved, _features(tables, node, buffers), _edges(tables, node, len(buffers)), first
    )


def _edges(tables: Tables, node: NDArray[np.int64], count: int) -> NDArray[np.bool_]:
    """Returns `[K, K]` whether one instruction accesses both tensors."""
    decided = np.flatnonzero(node >= 0)
    touches = np.zeros((tables.limits.instructions + 1, count), np.float32)
    touches[tables.access["instruction"][decided], node[decided]] = 1.0
    return (touches.T @ touches) > 0


def _features(tables: Tables, node: NDArray[np.int64], buffers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns `[K, NUM_FEATURES]` without units, of the order of 1."""
    count, steps = len(buffers), int(tables.limits.instructions)
    decided = np.flatnonzero(node >= 0)
    of, t = node[decided], tables.access["instruction"][decided]
    reads = tables.access["kind"][decided] == OPERAND
    clock = tables.instruction["clock_s"]
    whole, fast = max(float(clock[steps]), 1e-30), float(tables.limits.fast_bytes)

    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(of, weights=values, minlength=count).astype(np.float64)

    uses = np.maximum(total(np.ones(len(of))), 1.0)
    first, last = np.full(count, steps, np.int64), np.zeros(count, np.int64)
    np.minimum.at(first, of, t)
    np.maximum.at(last, of, t)
    share = tables.buffer["aligned"][buffers] / fast
    need = tables.buffer["size"][buffers] / tables.rates.hbm / whole
    span = (clock[last] + tables.instruction["all_hbm_s"][last] - clock[first]) / whole
    benefit = total(tables.access["benefit"][decided]) / whole
    busy = tables.instruction["compute_s"][t] / np.maximum(tables.instruction["all_hbm_s"][t], 1e-30)
    columns = [
        0.25 * np.log10(np.maximum(share, 1e-6)) + 0.5,
        np.minimum(share, 4.0),
        0.25 * np.log10(np.maximum(need * count, 1e-6)) + 0.5,
        0.25 * np.log10(np.maximum(benefit * count, 1e-6)) + 0.5,
        0.5 * np.log10(np.maximum(benefit / np.maximum(share * span, 1e-12), 1e-6)),
        np.sqrt(np.maximum(span, 0.0)),
        clock[first] / whole,
        clock[last] / whole,
        np.log2(1.0 + total(reads.astype(np.float64))) / 4.0,
        np.log2(1.0 + total((~reads).astype(np.float64))) / 4.0,
        tables.buffer["is_input"][buffers].astype(np.float64),
        tables.buffer["is_output"][buffers].astype(np.float64),
        total(busy) / uses,
        np.minimum(total(tables.instruction["live"][t]) / uses, 3.0),
        np.log10(np.maximum(total(tables.instruction["weight"][t]) / uses, 1.0)) / 3.0,
    ]
    return np.stack(columns, axis=1).astype(np.float32).reshape(count, NUM_FEATURES)
