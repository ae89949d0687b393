"""Command line, configuration, topologies, run directory: the only room that imports all the others."""
