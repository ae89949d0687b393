"""Command line, configuration, topologies, run directory: the only room that knows all the others."""
