"""The parts of a training run that both topologies share, and those of the topology `process`."""
