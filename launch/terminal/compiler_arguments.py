"""Arguments that `capture`, `confirm`, `impose` and `tune`, the commands that ask the real compiler, share."""

import argparse
from pathlib import Path


def add_options_output(parser: argparse.ArgumentParser) -> None:
    """Adds `-o OPTIONS`."""
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        type=Path,
        metavar="OPTIONS",
        help="file for the options, .json, to give to `jax.jit(f).lower(...).compile(compiler_options=...)`",
    )


def add_python_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--python PATH`."""
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="interpreter with jax, libtpu and the packages of the model; by default one is made, once, and kept",
    )
