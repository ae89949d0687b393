"""The bottleneck of a run, from the waits of actors and learner and the state of the rate limiter.

The limiter keeps `inserts * samples_per_insert - samples` in a range around `min_size * samples_per_insert`. At the
lower end it holds the learner until actors insert; at the upper end it holds actors until the learner samples. A side
that waits far from its own end waits for the replay server itself.
"""

from dataclasses import dataclass

ACTORS, LEARNER, REPLAY, NOBODY = "actors", "learner", "replay", "nobody"
# A smaller share of a role's time counts as no wait.
_LITTLE = 0.1
# Beyond this place in the limiter's range the limiter does not hold the learner; below 1 minus this, not the actors.
_FAR = 0.75


@dataclass(frozen=True)
class Waits:
    """Waits in the last minute of a run. Shares are of wall time; None if unknown.

    Attributes:
      one_process: actor and learner take turns in one process.
      playing: share of its time that an actor spends playing.
      learner, actors: shares of their time that the learner, and an actor on average, waited for the replay.
      size, min_size: segments in the replay, and those that it needs before the learner begins.
      place: place of the limiter in its range: at 0 it holds the learner, at 1 the actors.
    """

    one_process: bool
    playing: float | None
    learner: float
    actors: float
    size: int | None
    min_size: int | None
    place: float | None


def bottleneck(waits: Waits) -> tuple[str, str]:
    """Returns the limiting role (`actors`, `learner`, `replay` or `nobody`), and the reason in a sentence."""
    if waits.size is not None and waits.min_size is not None and waits.size < waits.min_size:
        return ACTORS, (
            f"the replay is filling: it has {waits.size} of the {waits.min_size} segments (replay.min_size) that the "
            "learner begins with; more actors fill it faster"
        )
    if waits.one_process:
        return _turns(waits)
    learner, actors = f"{100 * waits.learner:.0f} %", f"{100 * waits.actors:.0f} %"
    if max(waits.learner, waits.actors) < _LITTLE:
        return NOBODY, (
            f"learner and actors are at work nearly all the time (they wait {learner} and {actors}): only more or "
            "faster processors help"
        )
    if waits.learner >= waits.actors:
        if waits.place is not None and waits.place > _FAR:
            return REPLAY, (
                f"the learner waits {learner} of its time though the replay owes it samples: the replay server, or the "
                "network to it, is too slow"
            )
        return ACTORS, (
            f"the learner waits {learner} of its time for new segments: more or faster actors help (--actors, "
            "ray.actor_cpus), or a higher replay.samples_per_insert"
        )
    if waits.place is not None and waits.place < 1 - _FAR:
        return REPLAY, (
            f"actors wait {actors} of their time though the replay would take more segments: the replay server, or the "
            "network to it, is too slow"
        )
    return LEARNER, (
        f"actors wait {actors} of their time because the learner has not sampled enough yet: a faster learner helps "
        "(ray.learner_gpus, ray.learner_threads=0), fewer actors, or a lower replay.samples_per_insert"
    )


def _turns(waits: Waits) -> tuple[str, str]:
    if waits.playing is None:
        return NOBODY, "one process plays and learns in turn, so that nobody waits; the topology ray does both at once"
    share = f"{100 * min(1.0, waits.playing):.0f} %"
    if waits.playing > 0.5:
        return ACTORS, f"one process plays and learns in turn, and playing takes {share} of the time"
    return LEARNER, (
        f"one process plays and learns in turn, and playing takes only {share} of the time; learning, evaluating and "
        "saving take the rest"
    )
