"""All solvers at equal budgets of processor time, for docs/solver-results.md."""
