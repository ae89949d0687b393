"""Seeds of the parts of a run, all from the one seed of its configuration."""

from enum import IntEnum

import numpy as np


class Role(IntEnum):
    """What a seed is for. Numbers are never reused: they are part of what makes runs repeat."""

    LEARNER = 0
    REPLAY = 1
    ACTOR = 2


def seed_of(seed: int, role: Role, index: int = 0) -> int:
    """Returns the 32-bit seed of one part; `index` tells actors apart."""
    return int(np.random.SeedSequence([seed, int(role), index]).generate_state(1)[0])
