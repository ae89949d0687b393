"""Arguments that the commands which ask the real compiler have in common."""

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
        help="the options, .json, for `jax.jit(f).lower(...).compile(compiler_options=...)`",
    )


def add_python_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--python PATH`."""
    parser.add_argument(
        "--python",
        type=Path,
        metavar="PATH",
        help="interpreter with jax, libtpu and the model; without it, an environment is made and kept",
    )
