"""Stand-ins for the compiler's process, which replay a recorded compilation and fail on demand."""

import json
import os
import subprocess
import sys
import tarfile
import textwrap
from pathlib import Path
from typing import Any

import pytest
from programs import make_program

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify

# A real compilation of nine instructions: slices, a cross-program prefetch, a slice replaced by a copy.
SMALL = Path(__file__).parents[1] / "env" / "capture" / "data" / "small"
# Its scheduled module.
BEFORE = "module.after_optimizations_before_buffer_assignment.txt"
# An order of one value, as an option.
TAKEN = 'overrides { hlo_position_matcher { instruction_name_regex: "a[.]1" } override_options { assign_value: -5 } }'

# A change for `recorded`: compilations to the end tell cycles, as the code generator does.
WITH_CYCLES = """
if request["through"] == "code":
    import re
    code = made / "compiled.txt"
    told = r'\\1, backend_config={"window_config":{"estimated_cycles":"1000"}}'
    code.write_text(re.sub(r"^(  %\\S*fusion\\S* = .* fusion[(].*)$", told, code.read_text(), flags=re.M))
"""


# Kernels for tpu7x, with the dump from before the compiler colors them: three products, of which the second wants its
# result in HBM, each followed by silu and a sum.
KERNELS_TPU7X = SMALL.parent / "kernels" / "products-tpu7x.tar.xz"
UNCOLORED = "module.before_tpu-custom-call-memory-space-policy.txt"


def assembled(folder: Path, target: str = "v5e") -> Program:
    """Returns the program of a compilation."""
    return Assembly(folder, GENERATIONS[target], "small", "small").program()


def assert_read_back(program: Program) -> None:
    """Asserts that all of XLA's mapping has been read, and that both estimates of the compiler come out of it."""
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, program.production) == []
    assert program.compiler["estimates_off"] == pytest.approx({"without_copies": 0.0, "with_copies": 0.0}, abs=1e-5)


def unpacked(packed: Path, folder: Path) -> Path:
    """Unpacks a recorded compilation into a folder and returns it."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder


def truncate(path: Path, marker: str) -> None:
    """Cuts a file off before the first occurrence of `marker`."""
    text = path.read_text(encoding="utf-8")
    assert marker in text
    path.write_text(text[: text.index(marker)], encoding="utf-8")


def interpreter(folder: Path, script: str) -> Path:
    """Returns an executable that takes the place of a Python, run as `python worker.py FUNCTION TOPOLOGY FOLDER`."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def recorded(folder: Path, change: str = "", compilation: Path = SMALL) -> Path:
    """Returns an executable that answers every request of the worker's protocol with a recorded compilation.

    It dumps the options of a request as the compiler does. A module has names unless the name of its file denies it.

    Args:
      folder: takes the executable, and `requests.txt`; see `requests`.
      change: Python that runs before each answer. It sees `request`, `options`, and `made`, the folder with the files
        of the compilation; it may set `error`.
      compilation: the recorded one.
    """
    (folder / "recorded.py").write_text(
        f"""
import json, os, shutil, sys, time
from pathlib import Path
if sys.argv[1].endswith("module_reader.py"):
    Path(sys.argv[4]).write_bytes(b"a module")
    named = "unnamed" not in sys.argv[3]
    print("capture-done: " + json.dumps({{"name": "step", "partitions": 1, "devices": [0], "named": named}}))
    sys.exit()
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
        shutil.copytree({str(compilation)!r}, made, dirs_exist_ok=True)
        dump = [f"{{k}} {{{{ {{v}} }}}}" if "{{" in v else f"{{k}}: {{v}}" for k, v in options.items()]
        (made / "module.tpu_comp_env.txt").write_text("\\n".join(dump))
{textwrap.indent(change, "    ")}
    print("a line that some module did not end", end="")
    print('\\ncapture-done: ' + json.dumps({{"error": error, "cpu_s": 20.0}}), flush=True)
""",
        encoding="utf-8",
    )
    return interpreter(folder, f'exec {sys.executable} {folder}/recorded.py "$@"')


def requests(folder: Path) -> list[dict[str, Any]]:
    """Returns the requests that a recorded compiler was given, in order."""
    return [json.loads(line)[1] for line in (folder / "requests.txt").read_text(encoding="utf-8").splitlines()]


def small_program() -> Program:
    """Returns three instructions: an input used late, and an element of a tuple."""
    return make_program(
        [("a.1", 1.0, ["x"], ["y{1}"]), ("b", 2.0, ["y{1}"], ["z"]), ("c.2", 1.0, ["z", "x"], ["out"])],
        {"x": {"size": 16, "input": True}, "y{1}": 24, "z": 32, "out": {"size": 8, "output": True}},
    )


def real_python() -> Path:
    """Returns the interpreter with jax and libtpu that the user names for these tests; skips if there is none."""
    named = os.environ.get("MALLOCMUZERO_CAPTURE_PYTHON")
    if not named:
        pytest.skip("MALLOCMUZERO_CAPTURE_PYTHON names no interpreter with jax and libtpu")
    if subprocess.run([named, "-c", "import libtpu"], capture_output=True, check=False).returncode:
        pytest.skip(f"{named} has no libtpu")
    return Path(named)
