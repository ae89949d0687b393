"""The verdict of a diagnosis: its figures in a few sentences, the weakest part of the agent last."""

from .diagnose import Diagnosis, LineFigures
from .trace import PRODUCTION

# An agent's changes beat chance if the share of them that helps exceeds that of random changes by this many standard
# errors of the difference.
_STANDARD_ERRORS = 2.0
# A value head that explains less of the returns than this is hardly better than their mean.
_EXPLAINED = 0.2
# A model that imagines rewards with more than this share of the error of the best constant has learnt little.
_REWARD_ERROR = 0.9
# Imagined and real policy prefer the same move less often than this: the model has lost track of the position.
_SAME_MOVE = 0.5
# A policy with more than this share of the uniform policy's entropy has not learnt to choose.
_UNIFORM = 0.9


def verdict(diagnosis: Diagnosis) -> list[str]:
    """Returns sentences: on the changes, the values, the model and the policy, and on which of them to fix first."""
    line = _judged(diagnosis)
    parts = [
        ("changes", *_changes(diagnosis)),
        ("values", *_values(line)),
        ("model", *_model(line)),
        ("policy", *_policy(line)),
    ]
    sentences = [sentence for _, _, sentence in parts if sentence]
    weak = [name for name, good, sentence in parts if sentence and not good]
    return [*sentences, _advice(weak)]


def _judged(diagnosis: Diagnosis) -> LineFigures:
    """Returns the figures along XLA's line, which no agent has memorised; without one, along the first line."""
    return diagnosis.line(PRODUCTION) or diagnosis.lines[0]


def _changes(diagnosis: Diagnosis) -> tuple[bool, str]:
    changes = diagnosis.changes
    if changes is None or changes.agent.helps_share is None or changes.random.helps_share is None:
        return True, ""
    agent, random = changes.agent, changes.random
    assert agent.helps_share is not None
    assert random.helps_share is not None
    error = (
        agent.helps_share * (1.0 - agent.helps_share) / agent.moves
        + random.helps_share * (1.0 - random.helps_share) / random.moves
    ) ** 0.5
    ahead = agent.helps_share - random.helps_share
    good = ahead > _STANDARD_ERRORS * error and ahead > 0.0
    shares = (
        f"{agent.helps_share:.1%} of its {agent.moves:,} changes to XLA's mapping help, {random.helps_share:.1%} of "
        "random ones"
    )
    if good:
        return True, f"It knows something about XLA's mistakes: {shares}."
    return False, f"It knows no more about XLA's mistakes than chance: {shares}."


def _values(line: LineFigures) -> tuple[bool, str]:
    explained = line.value.explained
    if explained is None:
        return True, ""
    if explained < 0.0:
        return False, "Its values are further from the returns than their mean is."
    good = explained >= _EXPLAINED
    word = "predict" if good else "hardly predict"
    return good, f"Its values {word} the returns: they explain {explained:.0%} of the variance."


def _model(line: LineFigures) -> tuple[bool, str]:
    played = [depth for depth in line.model.depths if depth.depth >= 1 and depth.reward_error is not None]
    constant = line.model.constant_reward_error
    if not played or constant == 0.0:  # without rewards along the line there is nothing to predict
        return True, ""
    first, last = played[0], played[-1]
    assert first.reward_error is not None
    knows = first.reward_error <= _REWARD_ERROR * constant
    same = last.same_move
    remembers = same is None or same >= _SAME_MOVE
    if knows and remembers:
        return True, "Its model predicts rewards better than a constant, and imagined positions keep their best move."
    if not knows:
        return False, (
            f"Its model says little about rewards: it errs by {first.reward_error:.3g} units, the best constant by "
            f"{constant:.3g}."
        )
    steps = f"{last.depth} imagined steps on"
    return False, f"Its model forgets: {steps}, it likes the move best that the real position likes best in {same:.0%}."


def _policy(line: LineFigures) -> tuple[bool, str]:
    chosen = [c for c in line.policy.by_legal if c.legal > 1 and c.entropy is not None and c.decisions]
    total = sum(c.decisions for c in chosen)
    if not total:
        return True, ""
    share = sum(c.decisions * (c.entropy or 0.0) / c.uniform for c in chosen) / total
    good = share < _UNIFORM
    word = "chooses" if good else "hardly chooses"
    return good, f"Its policy {word}: its entropy is {share:.0%} of that of a policy that knows nothing."


_MENDS = {
    "changes": "train longer or on more programs, and judge it by this line again",
    "values": "train longer, and look at the calibration of the values before the search is trusted",
    "model": "search no deeper than the model is right, and train it for longer or with more unroll steps",
    "policy": "train longer, or with more simulations, so that its targets say more",
}


def _advice(weak: list[str]) -> str:
    """Returns the advice on the part that the others rest on: policy and values, then the model, then changes."""
    for name in ("policy", "values", "model", "changes"):
        if name in weak:
            return f"First to mend: the {name}. Advice: {_MENDS[name]}."
    return "Nothing stands out; compare it with its placebos on programs that it has not seen."
