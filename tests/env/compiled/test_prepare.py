"""Kernels are compiled before they are needed, by this process and a helper, each once."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mallocmuzero.env.compiled.prepare import kernels_of

# Quick to compile.
NEEDED = [
    "env.game.kernels:reset",
    "env.physics.event_loop:weigh_copies",
    "env.game.plan:preference_for",
    "solvers.common.fill",
]
SCRIPT = """
    import sys
    from mallocmuzero.env.compiled import prepare
    {before}
    names, reports, compiled = {needed!r}, [], []
    with prepare.watching(compiled.append):
        trouble = prepare.prepare(names, lambda done, total: reports.append((done, total)), helped={helped})
    print(reports[:1], reports[-1:], trouble, len(compiled) > 0)
    with prepare.watching(compiled.append):
        del compiled[:]
        assert all(kernel.overloads for kernel in prepare.kernels_of(names))
        assert prepare.prepare(names, reports.append) is None
    assert not compiled
"""


def run(cache: Path, helped: bool, before: str = "") -> str:
    """Prepares the kernels in a fresh process; returns what it printed."""
    script = textwrap.dedent(SCRIPT).format(needed=NEEDED, helped=helped, before=before)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


def test_kernels_are_compiled_once_and_then_loaded_in_silence(tmp_path: Path) -> None:
    assert run(tmp_path, helped=True) == "[(0, 4)] [(4, 4)] None True"
    assert run(tmp_path, helped=True) == "[] [] None False"
    assert len(list(tmp_path.rglob("*.nbc"))) == 4


def test_a_helper_that_fails_does_no_harm_and_is_reported(tmp_path: Path) -> None:
    helper = tmp_path / "helper"
    helper.write_text("#!/bin/sh\necho no memory >&2\nexit 3\n")
    helper.chmod(0o755)
    text = run(tmp_path / "cache", helped=True, before=f"prepare.sys.executable = {str(helper)!r}")
    assert text == "[(0, 4)] [(4, 4)] status 3: no memory True"
    text = run(tmp_path / "other", helped=True, before="prepare.sys.executable = '/nowhere/python'")
    assert "No such file" in text


def test_a_dead_helper_s_kernels_are_compiled_here(tmp_path: Path) -> None:
    """The helper holds the turn of a kernel and dies."""
    helper = tmp_path / "helper"
    helper.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, time\n"
        "from mallocmuzero.env.compiled import prepare\n"
        f"with prepare.turn(prepare.kernels_of({NEEDED!r})[-1]) as mine:\n"
        "    time.sleep(1.0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    helper.chmod(0o755)
    assert run(tmp_path / "cache", helped=True, before=f"prepare.sys.executable = {str(helper)!r}").startswith(
        "[(0, 4)] [(4, 4)]"
    )


def test_names_of_kernels() -> None:
    first, second = kernels_of(["env.game.kernels:look,reset", "env.game.kernels:reset"])
    assert (first.py_func.__name__, second.py_func.__name__) == ("look", "reset")
    assert len(kernels_of(["env.physics.event_loop"])) == 2
    with pytest.raises(ValueError, match="declares no kernel 'leap'"):
        kernels_of(["env.game.kernels:leap"])
