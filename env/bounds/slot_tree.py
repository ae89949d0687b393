"""A binary tree over the time in which copies may run: exact sharing of bandwidth with few columns.

Slot `2 t` is the wait before instruction `t`, slot `2 t + 1` the instruction itself, slot `2 T` the wait at the end.
A copy may use any of a range of slots. Cutting each range into the few nodes of a binary tree that cover it makes
"all copies fit into the idle time of their ranges" (Hall's condition for this transport problem) one row per node: the
time that a node's children leave over, less the time that copies take at the node, remains for the nodes above.
"""

from collections import defaultdict

from .linear_program import Expression, LinearProgram

_LONGEST_SUM = 6  # longer sums get a column of their own


class SlotTree:
    """Binary tree over `count` slots. Node 1 is the root, `2 n` and `2 n + 1` the children of `n`."""

    def __init__(self, count: int) -> None:
        self.size = 1
        while self.size < count:
            self.size *= 2
        self.demand: dict[int, Expression] = defaultdict(Expression)

    def cover(self, first: int, last: int) -> list[tuple[int, int, int]]:
        """Returns the fewest nodes that cover exactly slots `first..last`: `(node, first, last)` each, in order."""
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
        """Adds a row per node.

        Args:
          program: takes the rows.
          supply: slot -> time that copies may use there; other slots have none.
          most: upper bound of the time that any node leaves over.
        """
        self._left_over(program, supply, 1, most)

    def _left_over(self, program: LinearProgram, supply: dict[int, Expression], node: int, most: float) -> Expression:
        """Adds the rows of a node and those below it; returns the time left over for the nodes above."""
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
        # The part that nodes above use, at most all of it.
        kept = program.column(0.0, most)
        program.at_least(found.add(Expression.of(kept), -1.0))
        return Expression.of(kept)
