"""Settings of a training run that takes seconds."""

SMALL = {
    "network.width": 16,
    "network.projection_width": 16,
    "network.grid_channels": [4],
    "learner.batch_size": 8,
    "learner.unroll_steps": 2,
    "learner.td_steps": 3,
    "actor.games": 4,
    "search.simulations": 2,
    "replay.capacity": 400,
    "replay.min_size": 20,
    "replay.samples_per_insert": 2.0,
    "replay.error_buffer": 20.0,
    "schedule.slice_moves": 16,
}
