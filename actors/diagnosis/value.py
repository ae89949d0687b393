"""Calibration of the value head: predicted values against true discounted returns."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BINS = 10


@dataclass(frozen=True)
class Bin:
    """A bin of decisions with similar predictions.

    Attributes:
      decisions: number of decisions.
      low, high: the smallest and the largest prediction.
      predicted, true: mean prediction and mean true return.
      spread: standard deviation of the true returns.
    """

    decisions: int
    low: float
    high: float
    predicted: float
    true: float
    spread: float


@dataclass(frozen=True)
class Calibration:
    """Predicted values against true discounted returns over all decisions of a line, in units of return.

    Attributes:
      decisions: number of decisions.
      mean_predicted, mean_true: mean prediction and mean true return.
      mean_error: mean of predicted - true; above 0 the network is too optimistic.
      mean_abs_error: mean absolute error.
      slope, intercept: of the regression of true returns on predictions; ideally 1 and 0. A slope below 1 means that
        predictions vary more than the returns do. None if all predictions are equal.
      correlation: Pearson's; None if all predictions or all returns are equal.
      explained: share of the returns' variance that the predictions explain without regression: 1 is perfect, 0 equals
        the mean, below 0 is worse. None if all returns are equal.
      clipped: share of the returns beyond the limit of the network's codec.
      bins: ten bins of equally many decisions, by prediction.
    """

    decisions: int
    mean_predicted: float
    mean_true: float
    mean_error: float
    mean_abs_error: float
    slope: float | None
    intercept: float | None
    correlation: float | None
    explained: float | None
    clipped: float
    bins: list[Bin]


def calibrate(predicted: NDArray[np.float64], true: NDArray[np.float64], limit: float) -> Calibration:
    """Compares predictions with returns, `[D]` each; `limit` is the largest value that the codec represents."""
    error, spread, spread_true = predicted - true, predicted.std(), true.std()
    # A spread within the rounding of the values counts as none.
    varies = spread > 1e-6 * max(1.0, float(np.abs(predicted).max()))
    varies_true = spread_true > 1e-9 * max(1.0, float(np.abs(true).max()))
    covariance = float(((predicted - predicted.mean()) * (true - true.mean())).mean())
    slope = covariance / float(spread) ** 2 if varies else None
    groups = np.array_split(np.argsort(predicted, kind="stable"), min(_BINS, len(predicted)))
    return Calibration(
        decisions=len(predicted),
        mean_predicted=float(predicted.mean()),
        mean_true=float(true.mean()),
        mean_error=float(error.mean()),
        mean_abs_error=float(np.abs(error).mean()),
        slope=slope,
        intercept=None if slope is None else float(true.mean() - slope * predicted.mean()),
        correlation=covariance / float(spread * spread_true) if varies and varies_true else None,
        explained=1.0 - float((error**2).mean()) / float(spread_true) ** 2 if varies_true else None,
        clipped=float((np.abs(true) > limit).mean()),
        bins=[_bin(predicted[group], true[group]) for group in groups],
    )


def _bin(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> Bin:
    return Bin(
        decisions=len(predicted),
        low=float(predicted.min()),
        high=float(predicted.max()),
        predicted=float(predicted.mean()),
        true=float(true.mean()),
        spread=float(true.std()),
    )
