"""A training run put together from its parts, and the topology `process`."""
