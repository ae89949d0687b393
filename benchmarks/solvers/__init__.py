"""All solvers at equal budgets of processor time, for docs/results/solvers.md."""
