"""Measures what options gain by the clock, on a machine that has the accelerator."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..env.capture.standalone import run_alone
from .options import base_of

_RESAMPLES = 2000


@dataclass(frozen=True)
class Timed:
    """The times of a function, without options and with them.

    Attributes:
      device: the kind of device, as JAX names it.
      platform: `tpu`, `gpu` or `cpu`.
      jax: version.
      calls: number of calls that were timed together.
      same: whether both gave the same results, bit for bit.
      default_s, options_s: seconds of a call, in each round.
      gain: how much less time a call takes with the options, as a share.
      interval: of `gain`, with 95 % confidence.
    """

    device: str
    platform: str
    jax: str
    calls: int
    same: bool
    default_s: tuple[float, ...]
    options_s: tuple[float, ...]
    gain: float
    interval: tuple[float, float]


def time_options(function: str, options: Mapping[str, str], python: Path, rounds: int) -> Timed:
    """Runs a function alternately with options and without, on the devices of this machine.

    Options that no search sets are given both times.

    Args:
      function: `PKG.MODULE:FUNCTION`; see `capture`.
      options: compiler options.
      python: interpreter with jax for these devices, and the packages that the function needs.
      rounds: how often each is timed.

    Raises:
      UserError: the function cannot be run, or the compiler refuses an option.
    """
    found = run_alone(
        "timer.py",
        python,
        *(function, str(rounds)),
        environment=os.environ,
        about=function,
        task="run it",
        given=json.dumps({"default": base_of(options), "options": dict(options)}),
    )
    default_s, options_s = tuple(found["default_s"]), tuple(found["options_s"])
    gain, interval = gain_of(default_s, options_s)
    return Timed(
        found["device"],
        found["platform"],
        found["jax"],
        found["calls"],
        found["same"],
        default_s,
        options_s,
        gain,
        interval,
    )


def gain_of(default_s: tuple[float, ...], options_s: tuple[float, ...]) -> tuple[float, tuple[float, float]]:
    """Returns how much less time the second takes, as a share, and the 95 % interval of this gain.

    Rounds are pairs: the gain comes from the median of their ratios, its interval from a bootstrap over the rounds.
    """
    ratios = np.array(options_s) / np.array(default_s)
    drawn = np.random.default_rng(0).choice(ratios, (_RESAMPLES, len(ratios)))
    high, low = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return float(1.0 - np.median(ratios)), (float(1.0 - low), float(1.0 - high))
