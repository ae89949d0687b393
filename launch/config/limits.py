"""The most that sizes and counts of a training run may be: beyond it, a slip of the finger would take all memory.

A limit is several times above what any run of ours, or of the literature, has had, so that nobody meets it in earnest.
What is within all limits may still be too much together for one machine: see `session/memory.py`.
"""

from typing import Any

from ...env.errors import UserError

# Search evaluates the network so often for each move; AlphaZero did 800 times.
MOST_SIMULATIONS = 10_000
_MOST_WIDTH = 16_384
_MOST_BLOCKS = 200
# JAX counts in 32 bits.
_MOST_COUNTED = 2**31 - 1
_MOST = {
    "actors": 10_000,
    "network.grid_channels": _MOST_WIDTH,
    "network.width": _MOST_WIDTH,
    "network.representation_blocks": _MOST_BLOCKS,
    "network.dynamics_blocks": _MOST_BLOCKS,
    "network.prediction_blocks": _MOST_BLOCKS,
    "network.projection_width": _MOST_WIDTH,
    "network.candidate_width": _MOST_WIDTH,
    "network.value.bins": 100_001,
    "network.reward.bins": 100_001,
    "learner.batch_size": 100_000,
    "learner.unroll_steps": 1_000,
    "learner.td_steps": 100_000,
    "learner.warmup_steps": _MOST_COUNTED,
    "learner.target_period": _MOST_COUNTED,
    "replay.capacity": 100_000_000,
    "replay.servers": 1_000,
    "search.simulations": MOST_SIMULATIONS,
    "search.max_depth": _MOST_COUNTED,
    "actor.games": 10_000,
    "actor.residency.candidates": 10_000,
    "actor.residency.kicks": 100_000,
    "schedule.evaluate_simulations": MOST_SIMULATIONS,
}


def check_limits(config: Any) -> None:
    """Raises UserError if a setting of a configuration is above its limit; the message begins with its name."""
    for name, most in _MOST.items():
        value = config
        for part in name.split("."):
            value = getattr(value, part)
        largest = max(value, default=0) if isinstance(value, tuple) else value
        if largest is not None and largest > most:
            raise UserError(f"{name} is {value}; it must be at most {most:,}")
