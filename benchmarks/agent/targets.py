"""Targets of the agent, and whether the runs reach them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..ablations.tables import compare, in_percent
from ..solvers.tables import captured, versus
from .records import HELD_OUT, UNGUIDED
from .standing import TRAINED_S, Standing

SOLVED_S, FIRST_S = 60.0, 1.0
_EQUAL_S = (FIRST_S, 10.0, SOLVED_S)
LEVEL_WITH = ("order-search", "egrl", "greedy")
STRONG = ("anneal", "cem")
_WORSE_ON_CONTROLS = 0.002


class Target(NamedTuple):
    """One target.

    Attributes:
      words: the target.
      reached: None if too little was run to say.
      figures: the measurement.
    """

    words: str
    reached: bool | None
    figures: str


def targets(standing: Standing) -> list[Target]:
    """Returns all targets; the last ones ask whether the policy makes the difference."""
    trained = [
        _beats_tuned(standing, None, standing.contended, 0.9),
        *_controls(standing),
        _captured(standing),
    ]
    rivals = [_against(standing, None, rival, standing.contended, 0.5) for rival in STRONG]
    if min(standing.trained_s.values(), default=0.0) < TRAINED_S:  # more time may still reach them
        trained, rivals = (
            [target._replace(reached=target.reached or None) for target in part] for part in (trained, rivals)
        )
    return [
        *trained,
        _beats_tuned(standing, SOLVED_S, standing.contended_heldout, 0.7),
        *(
            _against(standing, seconds, rival, standing.contended_heldout, 1.0)
            for seconds in _EQUAL_S
            for rival in LEVEL_WITH
        ),
        *rivals,
        *(_clearly_better(standing, rival) for rival in STRONG),
        *(_policy_matters(standing, seconds) for seconds in _EQUAL_S),
    ]


def reached(good: int, bad: int, total: int, share: float) -> bool | None:
    """Returns whether `good` of `total` make up `share`, or None if the programs that were not run decide."""
    if total == 0:
        return None
    if good >= share * total - 1e-9:
        return True
    return False if total - bad < share * total - 1e-9 else None


def _count(names: Sequence[str], is_good: Callable[[str], bool | None], share: float, words: str, what: str) -> Target:
    found = {name: is_good(name) for name in names}
    good, bad = (sum(value is wanted for value in found.values()) for wanted in (True, False))
    figures = f"{what} {good}, not on {bad}, not run on {len(names) - good - bad} of {len(names)}"
    return Target(words, reached(good, bad, len(names), share), figures)


def _ours(standing: Standing, name: str, seconds: float | None) -> float | None:
    """Returns the agent's ratio on a program: solved in `seconds`, or after training on the program if None."""
    return standing.trained_ratio(name) if seconds is None else standing.ratio(HELD_OUT, name, seconds)


def _beats_tuned(standing: Standing, seconds: float | None, names: list[str], share: float) -> Target:
    def is_good(name: str) -> bool | None:
        ratio = _ours(standing, name, seconds)
        return None if ratio is None else versus(ratio, standing.tuned(name)) == 1

    where = "contended programs" if seconds is None else "contended held-out programs, which it has not seen"
    words = f"{_how(standing, seconds)}: better than tuned production on at least {100 * share:.0f} % of {where}"
    return _count(names, is_good, share, words, "better on")


def _controls(standing: Standing) -> list[Target]:
    found = [standing.trained_ratio(name) for name in standing.controls]
    before = [ratio for ratio in found if ratio is not None]
    total = len(found)
    good = sum(ratio <= 1.0 + _WORSE_ON_CONTROLS for ratio in before)
    missing = f"not run on {total - len(before)} of {total}"
    how, share = _how(standing, None), f"{100 * _WORSE_ON_CONTROLS:g} %"
    first = f"{100 * max(before):.2f} % of production at most, {missing}" if before else missing
    after = f"{100 * min(1.0, max(before)):.2f} % at most, by construction, {missing}" if before else missing
    return [
        Target(
            f"{how}: on controls never worse than production by more than {share}",
            reached(good, len(before) - good, total, 1.0),
            first,
        ),
        Target(
            f"{how}: on controls never worse at all, the better of ours and production taken",
            reached(len(before), 0, total, 1.0),
            after,
        ),
    ]


def _captured(standing: Standing) -> Target:
    shares = []
    for name in standing.contended:
        ratio, limit = standing.trained_ratio(name), standing.references[name]["bound"]
        if ratio is not None and limit is not None:
            shares.append(captured(ratio, limit))
    total = len(standing.contended)
    words = f"{_how(standing, None)}: of the possible gain at least 80 %, geometric mean over contended programs"
    if not shares:
        return Target(words, None, f"not run on {total} of {total}")
    mean = float(np.exp(np.mean(np.log(shares)))) if min(shares) > 0 else 0.0
    # Programs that were not run could capture everything.
    at_most = mean ** (len(shares) / total)
    decided = True if len(shares) == total and mean >= 0.8 else (False if at_most < 0.8 else None)
    zeros = sum(share == 0 for share in shares)
    figures = f"{100 * mean:.0f} %, arithmetic mean {100 * float(np.mean(shares)):.0f} %, nothing on {zeros}; "
    return Target(words, decided, figures + f"not run on {total - len(shares)} of {total}")


def _against(standing: Standing, seconds: float | None, rival: str, names: list[str], share: float) -> Target:
    def is_good(name: str) -> bool | None:
        mine = _ours(standing, name, seconds)
        theirs = standing.rival(rival, name, standing.trained_s.get(name, 0.0) if seconds is None else seconds)
        if mine is None or theirs is None:
            return None
        ratio, in_time = theirs
        level = versus(mine, ratio) >= 0
        # With less time than the agent had, a rival can only show that the agent is worse.
        return level if in_time or not level else None

    where = "all" if share == 1.0 else f"at least {100 * share:.0f} %"
    held_out = "" if seconds is None else "held-out "
    words = f"{_how(standing, seconds)}: at least level with `{rival}` on {where} of the contended {held_out}programs"
    return _count(names, is_good, share, words, "level or better on")


def _clearly_better(standing: Standing, rival: str) -> Target:
    def theirs(name: str) -> float | None:
        found = standing.rival(rival, name, FIRST_S)
        return found[0] if found is not None and found[1] else None

    return _better_on_average(standing, f"`{rival}`", FIRST_S, theirs)


def _policy_matters(standing: Standing, seconds: float) -> Target:
    return _better_on_average(
        standing, "the same without the policy", seconds, lambda name: standing.ratio(UNGUIDED, name, seconds)
    )


def _better_on_average(standing: Standing, rival: str, seconds: float, theirs: Callable[[str], float | None]) -> Target:
    words = f"{_how(standing, seconds)}: clearly better than {rival}, geometric mean over contended held-out programs"
    differences = []
    for name in standing.contended_heldout:
        mine, other = standing.ratio(HELD_OUT, name, seconds), theirs(name)
        if mine is not None and other is not None:
            differences.append([float(np.log(mine / other))])
    missing = len(standing.contended_heldout) - len(differences)
    if not differences:
        return Target(words, None, f"not run on {missing} of {missing}")
    found = compare(differences)
    figures = f"{in_percent(found, ' %')}, better on {found.better}, worse on {found.worse}, "
    figures += f"not run on {missing} of {len(standing.contended_heldout)}"
    return Target(words, None if missing else found.high < 0.0, figures)


def _how(standing: Standing, seconds: float | None) -> str:
    if seconds is None:
        minutes = sorted({spent / 60 for spent in standing.trained_s.values()})
        spent = " or ".join(f"{m:g}" for m in minutes)
        words = f"trained on each program for {spent or 'no'} minutes"
        return words if minutes == [TRAINED_S / 60] else f"{words} of {TRAINED_S / 60:g}"
    return f"solved in {seconds:g} s with the shipped policy"
