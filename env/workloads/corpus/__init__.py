"""The corpus: programs of generated models, to learn from, and the command that makes them.

The manifest and the program files lie in this folder; `env.workloads` reads them by name. Installed packages leave the
program files out.
"""
