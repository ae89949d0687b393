"""How far the runs of a solver lie apart that differ in their seed alone."""
