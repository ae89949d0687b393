"""Small episodes and configurations for the tests of replays."""

import dataclasses
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from mallocmuzero.replay.config import ReplayConfig
from mallocmuzero.replay.segment import Batch, Segment, SegmentClock, SegmentSpec, Step

SPEC = SegmentSpec(observation_size=4, num_actions=3, unroll_steps=2, td_steps=3, period=2)
FREE = ReplayConfig(capacity=64, min_size=1, samples_per_insert=1.0, error_buffer=1e6, priority_exponent=0.5)
# Inserts are held after 10 more than samples account for, samples likewise.
PACED = dataclasses.replace(
    FREE, min_size=4, samples_per_insert=2.0, error_buffer=20.0, max_in_flight=3, insert_timeout_s=0.2
)
FIELDS = [field.name for field in dataclasses.fields(Segment)]


def episode(length: int, seed: int = 0, spec: SegmentSpec = SPEC) -> list[Step]:
    """Random steps; the seed shows in every observation, so that episodes can be told apart."""
    rng = np.random.default_rng(seed)
    steps = []
    for index in range(length):
        observation = rng.random(spec.observation_size, dtype=np.float32)
        observation[:2] = seed, index
        policy = rng.dirichlet(np.ones(spec.num_actions)).astype(np.float32)
        legal = rng.random(spec.num_actions) < 0.7
        discount = 0.0 if index == length - 1 else 0.997
        action = int(rng.integers(spec.num_actions))
        steps.append(Step(observation, legal, action, float(rng.normal()), discount, policy, float(rng.normal())))
    return steps


def play(writer, steps: list[Step]) -> None:
    """Writes one whole episode."""
    for step in steps:
        writer.append(step)
    writer.end_episode()


def content(segment: Segment) -> bytes:
    """The exact content of a segment, to look it up by."""
    return b"".join(np.ascontiguousarray(getattr(segment, name)).tobytes() for name in FIELDS)


def contents(batch: Batch) -> list[bytes]:
    """The exact content of each segment of a batch."""
    return [content(Segment(**{name: getattr(batch, name)[i] for name in FIELDS})) for i in range(len(batch.key))]


def expected(*episodes: list[Step], spec: SegmentSpec = SPEC) -> set[bytes]:
    """The contents of all segments of these episodes."""
    return {content(segment) for steps in episodes for segment in segments(spec, steps)}


def segments(spec: SegmentSpec, episode: Iterable[Step]) -> Iterator[Segment]:
    """Yields the segments of one episode, each as soon as its steps have been drawn from `episode`.

    Raises:
      ValueError: a step does not fit `spec`, or the discount is 0 elsewhere than on the last step.
    """
    clock = SegmentClock(spec)
    window: deque[dict[str, Any]] = deque(maxlen=spec.length)
    for step in episode:
        clock.check_open()
        window.append(spec.row(step))
        if clock.advance(step.discount):
            yield stack(window)
    absorbing = spec.absorbing
    for _ in range(clock.padding()):
        window.append(absorbing)
        if clock.advance():
            yield stack(window)


def stack(rows: Iterable[dict[str, np.ndarray]]) -> Segment:
    """Returns the segment of these `S` rows."""
    rows = list(rows)
    return Segment(**{name: np.stack([row[name] for row in rows]) for name in rows[0]})
