"""Best fit against the exact packer, for docs/solvers.md."""
