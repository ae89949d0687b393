"""Scores of changes: the trained network's, and the placebos that it is measured against."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...env.errors import UserError
from ...env.residency.observation import STAY_FEATURES
from ...learner.networks.numpy_scorer import NumpyScorer

# Takes the features of stays `[S, STAY_FEATURES]`, and the stay and the placement of each change `[C]`; returns `[C]`,
# the larger the likelier the change is to gain.
Score = Callable[[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]], NDArray[np.float32]]

# Weights as before training; the network's scores dealt out at random; no network at all.
UNTRAINED, SHUFFLED, NONE = "untrained", "shuffled", "none"
PLACEBOS = (UNTRAINED, SHUFFLED, NONE)


def make_score(params: dict[str, Any], placebo: str | None = None, seed: int = 0) -> Score:
    """Returns the score of a network's parameters, or of a placebo made from them.

    Args:
      params: the parameters of a candidate network.
      placebo: None, `untrained` or `shuffled`.
      seed: of the placebo.

    Raises:
      UserError: there is no such placebo.
    """
    draw = np.random.default_rng(seed)
    if placebo == UNTRAINED:
        params = _untrained(params, draw)
    elif placebo not in (None, SHUFFLED):
        raise UserError(f"no placebo is called {placebo!r}; the placebos are {', '.join(PLACEBOS)}")
    scorer = NumpyScorer(params, STAY_FEATURES)

    def score(rows: NDArray[np.float32], stay: NDArray[np.int64], placement: NDArray[np.int64]) -> NDArray[np.float32]:
        chance = scorer(rows, stay, placement)[:, 1]
        return draw.permutation(chance) if placebo == SHUFFLED else chance

    return score


def _untrained(params: dict[str, Any], draw: np.random.Generator) -> dict[str, Any]:
    """Returns fresh weights for the parts of a network that score: normal, of variance 1 over the inputs; no biases."""

    def fresh(part: dict[str, Any]) -> dict[str, Any]:
        inputs, outputs = np.shape(part["kernel"])
        kernel = draw.normal(size=(inputs, outputs)) / np.sqrt(inputs)
        return {"kernel": kernel.astype(np.float32), "bias": np.zeros(outputs, np.float32)}

    encoder = {name: fresh(part) for name, part in params["representation"]["encoder"].items()}
    return {"representation": {"encoder": encoder}, "outcome": {"dense": fresh(params["outcome"]["dense"])}}


def check_params(params: Any, where: str | Path) -> dict[str, Any]:
    """Returns parameters that score changes. Raises UserError if `where` holds those of another game or version."""
    try:
        rows = np.shape(params["representation"]["encoder"]["dense_1"]["kernel"])[0]
        _ = params["outcome"]["dense"]["kernel"]
    except (KeyError, TypeError, IndexError):
        raise UserError(
            f"{where}: is a policy of the game `access`, which scores no changes; give one of `train --game residency`"
        ) from None
    if rows <= STAY_FEATURES:
        raise UserError(f"{where}: is a policy of another version, with other observations; train or export it again")
    found: dict[str, Any] = params
    return found
