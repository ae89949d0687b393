"""A stand-in for the compiler's process, which fails in the ways of the real one."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SMALL = Path(__file__).parents[1] / "env" / "capture" / "data" / "small"


def interpreter(folder: Path, script: str) -> Path:
    """Returns an executable that stands for a Python; it runs `worker.py FUNCTION TOPOLOGY FOLDER`."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def recorded(folder: Path, change: str = "") -> Path:
    """Returns an executable that answers every request of the worker's protocol with the recorded compilation, and
    dumps the options that it was given as the compiler does.

    Args:
      folder: for the executable, and for `requests.txt`, one line per request.
      change: Python that sees `request`, `options`, and `made`, the folder that is filled; it may set `error`.
    """
    (folder / "recorded.py").write_text(
        f"""
import json, os, shutil, sys, time
from pathlib import Path
Path(sys.argv[4], "versions.json").write_text('{{"jax": "1", "libtpu": "2"}}')
for line in sys.stdin:
    request = json.loads(line)
    options, made = request["options"], Path(request["folder"])
    with Path({str(folder)!r}, "requests.txt").open("a") as file:
        file.write(json.dumps([sys.argv[2], request]) + "\\n")
    error = None
    if request["through"] == "lowering":
        (made / "module.stablehlo").write_bytes(b"a module")
    else:
        shutil.copytree({str(SMALL)!r}, made, dirs_exist_ok=True)
        dump = [f"{{k}} {{{{ {{v}} }}}}" if "{{" in v else f"{{k}}: {{v}}" for k, v in options.items()]
        (made / "module.tpu_comp_env.txt").write_text("\\n".join(dump))
{textwrap.indent(change, "    ")}
    print('capture-done: ' + json.dumps({{"error": error, "cpu_s": 20.0}}), flush=True)
""",
        encoding="utf-8",
    )
    return interpreter(folder, f"exec {sys.executable} {folder}/recorded.py $@")


def real_python() -> Path:
    """Returns the interpreter with jax and libtpu that the user names for these tests; skips where there is none."""
    named = os.environ.get("MALLOCMUZERO_CAPTURE_PYTHON")
    if not named:
        pytest.skip("MALLOCMUZERO_CAPTURE_PYTHON names no interpreter with jax and libtpu")
    if subprocess.run([named, "-c", "import libtpu"], capture_output=True, check=False).returncode:
        pytest.skip(f"{named} has no libtpu")
    return Path(named)
