"""A training session and the topology `process`."""
