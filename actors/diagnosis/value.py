"""Value calibration: the values that the network predicts against what the game came to."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Decisions whose predictions are alike.

    Attributes:
      decisions: how many.
      low, high: the smallest and the largest prediction.
      predicted, true: the means.
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
    """Predicted value against true discounted return, over all decisions of a line. All in units of return.

    Attributes:
      decisions: how many.
      mean_predicted, mean_true: the means.
      mean_error: predicted - true, on average: above 0 the network hopes for too much.
      mean_abs_error: how far off it is.
      slope, intercept: of the straight line through the true returns over the predictions: 1 and 0 are ideal; a slope
        below 1 says that predictions differ more than what they predict. None if all predictions are equal.
      correlation: Pearson's; None if predictions or returns are all equal.
      explained: share of the returns' variance that the predictions explain, as they are: 1 is perfect, 0 as good as
        the mean, below 0 worse. None if all returns are equal.
      clipped: share of the returns that the network cannot say, because they lie beyond the limit of its codec.
      bins: ten with as many decisions each, by prediction.
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
    """Compares predictions with returns, `[D]` each; `limit` is the largest that the network can say."""
    error, spread, spread_true = predicted - true, predicted.std(), true.std()
    # A spread that is rounding of the values themselves is none.
    varies = spread > 1e-6 * max(1.0, float(np.abs(predicted).max()))
    varies_true = spread_true > 1e-9 * max(1.0, float(np.abs(true).max()))
    covariance = float(((predicted - predicted.mean()) * (true - true.mean())).mean())
    slope = covariance / float(spread) ** 2 if varies else None
    groups = np.array_split(np.argsort(predicted, kind="stable"), min(_BINS, len(predicted)))
    return Calibration(
        len(predicted),
        float(predicted.mean()),
        float(true.mean()),
        float(error.mean()),
        float(np.abs(error).mean()),
        slope,
        None if slope is None else float(true.mean() - slope * predicted.mean()),
        covariance / float(spread * spread_true) if varies and varies_true else None,
        1.0 - float((error**2).mean()) / float(spread_true) ** 2 if varies_true else None,
        float((np.abs(true) > limit).mean()),
        [_bin(predicted[group], true[group]) for group in groups],
    )


def _bin(predicted: NDArray[np.float64], true: NDArray[np.float64]) -> Bin:
    return Bin(
        len(predicted),
        float(predicted.min()),
        float(predicted.max()),
        float(predicted.mean()),
        float(true.mean()),
        float(true.std()),
    )
