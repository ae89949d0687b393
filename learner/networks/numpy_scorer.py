"""The outcome head in NumPy: solvers score thousands of changes with it, without JAX and without a compiler."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController


class NumpyScorer:
    """Scores candidates, each by itself, as `Network.score` does (a test compares the two).

    A candidate's features are `1`, those of its row, and the one-hot code of its choice: `C` candidates are `S` rows
    with `P` choices each. The first layer is computed once for each row.
    """

    def __init__(self, params: dict[str, Any], row_size: int) -> None:
        """Takes the parameters of a candidate network, whose rows have `row_size` features."""
        encoder = params["representation"]["encoder"]

        def layer(part: dict[str, Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            return np.asarray(part["kernel"], np.float32), np.asarray(part["bias"], np.float32)

        first, bias = layer(encoder["dense_1"])
        self._present = first[0] + bias
        self._row, self._choice = first[1 : 1 + row_size], first[1 + row_size :]
        self._second, self._third = layer(encoder["dense_2"]), layer(encoder["dense_3"])
        self._head = layer(params["outcome"]["dense"])
        # The products are small: split among threads, on a busy machine, they take a hundred times as long.
        self._blas = ThreadpoolController().select(user_api="blas")

    @property
    def choices(self) -> int:
        """`P`, the choices of a row."""
        return len(self._choice)

    def __call__(
        self, rows: NDArray[np.float32], row: NDArray[np.int64], choice: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns `[C, 2]` the predicted gain, and the logit of the chance to gain, of `C` candidates.

        Args:
          rows: `[S, row_size]`.
          row, choice: `[C]` the row and the choice of each candidate.
        """
        with self._blas.limit(limits=1):
            hidden = (rows @ self._row)[row]
            hidden += (self._choice + self._present)[choice]
            np.maximum(hidden, 0, out=hidden)
            hidden = hidden @ self._second[0]
            hidden += self._second[1]
            np.maximum(hidden, 0, out=hidden)
            embedded = hidden @ self._third[0]
            embedded += self._third[1]
            return np.asarray(np.tanh(embedded, out=embedded) @ self._head[0] + self._head[1])
