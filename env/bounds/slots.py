"""The time in which copies may run, as a tree of slots: exact bandwidth sharing with few columns.

Slot `2 t` is the wait before instruction `t`, slot `2 t + 1` the instruction itself, slot `2 T` the wait at the end.
A copy may use any of a range of slots. Cutting each range into the few nodes of a binary tree that cover it makes
"all copies fit into the idle time of their ranges" (Hall's condition for this transport problem) one row per node: what
a node's children leave over, less what copies take at the node, is left over for the nodes above.
"""

from collections import defaultdict

from .linear import Expression, LinearProgram

_LONGEST_SUM = 6


class SlotTree:
    """Binary tree over `count` slots. Node 1 is the root, `2 n` and `2 n + 1` the children of `n`."""

    def __init__(self, count: int) -> None:
        self.size = 1
        while self.size < count:
            self.size *= 2
        self.demand: dict[int, Expression] = defaultdict(Expression)

    def cover(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Returns `(node, first, last)` of the fewest nodes that are exactly slots `first..last`, in order of time."""
        left: list[tuple[int, int, int]] = []
        right: list[tuple[int, int, int]] = []
        low, high, width = first + self.size, last + self.size + 1, 1
        while low < high:
            if low & 1:
                left.append(self._with_range(low, width))
                low += 1
            if high & 1:
                high -= 1
                right.append(self._with_range(high, width))
            low, high, width = low // 2, high // 2, 2 * width
        return left + right[::-1]

    def _with_range(self, node: int, width: int) -> tuple[int, int, int]:
        begin = node * width - self.size
        return node, begin, begin + width - 1

    def take(self, node: int, share: Expression, seconds: float) -> None:
        """Lets a share of a copy that takes `seconds` in all run within the slots of a node."""
        terms = self.demand[node].terms
        for column, value in share.terms.items():
            terms[column] = terms.get(column, 0.0) + seconds * value
        self.demand[node].constant += seconds * share.constant

    def constrain(self, program: LinearProgram, supply: dict[int, Expression], most: float) -> None:
        """Adds the rows.

        Args:
          program: takes them.
          supply: slot -> time that copies may use there; slots without one have none.
          most: no more than this is left over anywhere.
        """
        self._left_over(program, supply, 1, most)

    def _left_over(self, program: LinearProgram, supply: dict[int, Expression], node: int, most: float) -> Expression:
        if node >= self.size:
            found = supply.get(node - self.size, Expression())
        else:
            found = self._left_over(program, supply, 2 * node, most)
            found = found.add(self._left_over(program, supply, 2 * node + 1, most))
        demand = self.demand.get(node)
        if demand is None and len(found.terms) <= _LONGEST_SUM:
            return found
        if demand is not None:
            found = found.add(demand, -1.0)
        if node == 1:
            program.at_least(found)
            return found
        # The part of it that nodes above use, at most all.
        kept = program.column(0.0, most)
        program.at_least(found.add(Expression.of(kept), -1.0))
        return Expression.of(kept)
