"""The sub-commands: each module has `add_parser(subparsers)` and a `run(arguments)` that returns the exit status.

Modules import heavy libraries (JAX, Ray, Reverb, matplotlib) inside `run`, so that every other command stays quick.
"""
