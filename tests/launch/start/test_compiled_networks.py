"""What JAX compiles of the networks is kept on disk, whole, and loaded by the next process."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from mallocmuzero.launch.start.compiled_networks import KEEPS, keeping_networks

needs_keeping = pytest.mark.skipif(not KEEPS, reason="this version of JAX may refuse its own entries: nothing is kept")

# Prints how often JAX found what it compiles, how often not, and what came out.
_SCRIPT = """
import os, sys
import jax, jax.numpy as jnp
from mallocmuzero.launch.start.compiled_networks import keeping_networks

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
jax.jit(lambda x: x * 2)(jnp.ones(2))  # JAX has looked for a folder of its own before, and found none
with keeping_networks():
    with keeping_networks():
        result = jax.jit(lambda x: jnp.tanh(x @ x).sum())(jnp.linspace(0, 1, 64).reshape(8, 8))
    if "die" in sys.argv:
        os._exit(1)
jax.jit(lambda x: x * 3)(jnp.ones(2))
hits, misses = (events.count(f"/jax/compilation_cache/cache_{what}") for what in ("hits", "misses"))
print(hits, misses, float(result), jax.config.jax_compilation_cache_dir)
"""


def run(cache: Path, *arguments: str, said: str = "", **variables: str) -> list[str]:
    dropped = ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS")
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    environment |= {"XDG_CACHE_HOME": str(cache), **variables}
    command = [sys.executable, "-c", _SCRIPT, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == int("die" in arguments), done.stderr
    assert "Traceback" not in done.stderr
    assert said in done.stderr
    assert done.stderr.count("not kept") == int(bool(said))
    return done.stdout.split()


def entries(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (cache / "mallocmuzero/networks").rglob("*-cache.*")}


@needs_keeping
def test_the_next_process_loads_what_was_compiled(tmp_path: Path) -> None:
    hits, misses, result, folder = run(tmp_path)
    assert int(hits) == 0 < int(misses)
    assert folder == "None"
    kept = entries(tmp_path)
    assert len(kept) == int(misses)
    assert run(tmp_path) == [misses, "0", result, "None"]
    assert entries(tmp_path) == kept
    (of_this_machine,) = (tmp_path / "mallocmuzero/networks").iterdir()
    assert {path.name for path in of_this_machine.iterdir()} == set(kept)


@needs_keeping
def test_a_process_that_dies_leaves_no_entry(tmp_path: Path) -> None:
    run(tmp_path, "die")
    hits, misses, *_ = run(tmp_path)
    assert int(hits) == 0 < int(misses)


@needs_keeping
def test_half_an_entry_is_compiled_anew(tmp_path: Path) -> None:
    _, _, result, _ = run(tmp_path)
    (folder,) = (tmp_path / "mallocmuzero/networks").iterdir()
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    assert run(tmp_path)[2] == result
    assert run(tmp_path)[:3] == [str(len(entries(tmp_path))), "0", result]  # and is whole from then on


def test_a_folder_of_the_users_own_is_left_alone(tmp_path: Path) -> None:
    named = tmp_path / "mine"
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=str(named))[3] == str(named)
    assert not (tmp_path / "mallocmuzero/networks").exists()


@needs_keeping
def test_where_no_folder_can_be_made_nothing_is_kept_and_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hits, misses, *_ = run(tmp_path / "file", said=f"not kept, so every start compiles them anew: {tmp_path}/file")
    assert (hits, misses) == ("0", "0")


@pytest.mark.skipif(KEEPS, reason="this version of JAX takes back what it has written")
def test_where_entries_may_be_refused_none_is_kept(tmp_path: Path) -> None:
    hits, misses, _, folder = run(tmp_path)
    assert (hits, misses, folder) == ("0", "0", "None")
    assert not (tmp_path / "mallocmuzero/networks").exists()


@needs_keeping
def test_a_user_without_a_home_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 9)
    name = "jax_compilation_cache_dir"
    given = getattr(jax.config, name)
    jax.config.update(name, None)
    try:
        with keeping_networks():
            assert getattr(jax.config, name) is None
    finally:
        jax.config.update(name, given)
