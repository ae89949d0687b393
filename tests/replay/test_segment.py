"""Segments of an episode: where they start, and the absorbing rows that complete them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replay_cases import SPEC, episode, segments

from mallocmuzero.env.errors import UserError
from mallocmuzero.replay.segment import SegmentClock, SegmentSpec


@st.composite
def specs(draw):
    unroll, td = draw(st.integers(0, 4)), draw(st.integers(1, 4))
    return SegmentSpec(2, 3, unroll, td, draw(st.integers(1, unroll + td + 1)))


@settings(max_examples=60, deadline=None)
@given(specs(), st.integers(1, 25))
def test_segments_start_every_period_and_miss_no_step(spec, length):
    steps = episode(length, spec=spec)
    found = list(segments(spec, steps))
    assert len(found) == -(-length // spec.period)
    seen = set()
    for number, segment in enumerate(found):
        start = number * spec.period
        rows = range(start, min(start + spec.length, length))
        seen.update(rows)
        assert segment.valid.tolist() == [True] * len(rows) + [False] * (spec.length - len(rows))
        for place, row in enumerate(rows):
            np.testing.assert_array_equal(segment.observation[place], steps[row].observation)
            assert segment.action[place] == steps[row].action
            assert segment.discount[place] == np.float32(steps[row].discount)
    assert seen == set(range(length))


def test_rows_after_the_end_are_absorbing():
    last = list(segments(SPEC, episode(3)))[-1]
    assert last.valid.tolist() == [True] + [False] * 5
    assert not last.observation[1:].any()
    assert last.legal[1:].all()
    np.testing.assert_array_equal(last.policy[1:], np.full((5, 3), 1 / 3, np.float32))
    for name in ("action", "reward", "discount", "value"):
        assert not getattr(last, name)[1:].any()


def test_dtypes_and_shapes():
    for segment in segments(SPEC, episode(9)):
        for name, (shape, dtype) in SPEC.fields.items():
            array = getattr(segment, name)
            assert array.shape == (SPEC.length, *shape)
            assert array.dtype == dtype


def test_a_segment_is_there_as_soon_as_its_steps_are():
    drawn = []

    def stream():
        for step in episode(50):
            drawn.append(step)
            yield step

    stream_of_segments = segments(SPEC, stream())
    next(stream_of_segments)
    assert len(drawn) == SPEC.length
    next(stream_of_segments)
    assert len(drawn) == SPEC.length + SPEC.period


def test_an_episode_cut_short_cannot_end():
    with pytest.raises(ValueError, match=r"after a step of discount 0\.997"):
        list(segments(SPEC, episode(5)[:4]))


def test_no_step_follows_discount_zero():
    steps = episode(5)
    with pytest.raises(ValueError, match="the episode is over"):
        list(segments(SPEC, [*steps, steps[0]]))


def test_an_episode_without_steps_has_no_segments():
    assert list(segments(SPEC, [])) == []
    assert SegmentClock(SPEC).padding() == 0


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("observation", np.zeros(5, np.float32), r"step\.observation has shape \(5,\), expected \(4,\)"),
        ("policy", np.zeros(2, np.float32), r"step\.policy has shape \(2,\)"),
        ("reward", np.zeros(1, np.float32), r"step\.reward has shape \(1,\)"),
        ("action", 3, r"step\.action is 3, expected 0\.\.2"),
    ],
)
def test_a_step_of_another_shape_is_refused(field, value, message):
    with pytest.raises(ValueError, match=message):
        SPEC.row(episode(1)[0]._replace(**{field: value}))


@pytest.mark.parametrize("change", [{"period": 0}, {"period": 7}, {"td_steps": 0}, {"num_actions": 0}])
def test_a_spec_out_of_range_is_refused(change):
    sizes = {"observation_size": 4, "num_actions": 3, "unroll_steps": 2, "td_steps": 3, "period": 2, **change}
    with pytest.raises(UserError, match=f"segment: {next(iter(change))} is"):
        SegmentSpec(**sizes)
