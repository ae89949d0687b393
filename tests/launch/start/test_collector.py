"""The command, as a process of its own, has Python look for garbage seldom; `main`, in somebody's process, does not."""

import subprocess
import sys

_PROGRAM = """
import gc, sys
from mallocmuzero.launch.cli import entry, main

before = gc.get_threshold()
for run in (lambda: main(["--version"]), entry):
    try:
        run()
    except SystemExit:
        print([now > then for now, then in zip(gc.get_threshold(), before)])
"""


def test_the_command_looks_for_garbage_seldom() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line.startswith("[")] == [
        "[False, False, False]",
        "[True, True, False]",
    ]
