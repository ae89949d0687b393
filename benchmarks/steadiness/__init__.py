"""How far apart the runs of a solver lie that differ in their seed alone."""
