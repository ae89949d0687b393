"""`python -m mallocmuzero`: the command line."""

from .launch.cli import entry

if __name__ == "__main__":
    entry()
