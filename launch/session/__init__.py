"""A training session, shared by both topologies: programs, counters, metrics, progress, the final report."""
