"""The output of `mallocmuzero diagnose`: loads an agent, prints tables and draws pictures (docs/diagnosis.md)."""
