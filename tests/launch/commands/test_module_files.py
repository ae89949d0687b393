"""Commands that take the file of a lowered module where they take a function, and what its options are good for."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from compiler_cases import TAKEN, WITH_CYCLES, real_python, recorded, requests
from launch_cases import call

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.capture import UNNAMED
from mallocmuzero.env.program.compiler_flags import BANDWIDTH, ORDER
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program_file import read_module, read_program

DOCS = Path(__file__).parents[3] / "docs"
# Runs the page's script for a TPU that is not there, and says how much of the result is in fast memory.
ABSENT_TPU = """
from jax.experimental import topologies
devices = topologies.get_topology_desc(platform="tpu", topology_name="v5e:1x1").devices
exec(compile(open("train.py").read(), "train.py", "exec"))
def step_of():
    return step, (x, weights)
if __name__ == "__main__":
    print("fast:", compiled.as_text().count("S(1)"))
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    return written(tmp_path / "jax_ir0042_jit_step_compile.mlir")


@pytest.fixture
def unnamed(tmp_path: Path) -> Path:
    return written(tmp_path / "unnamed.mlir")


def written(path: Path) -> Path:
    path.write_text("module @jit_step {}", encoding="utf-8")
    return path


def test_a_module_is_captured(tmp_path: Path, module: Path) -> None:
    output = tmp_path / "small.json.gz"
    python = str(recorded(tmp_path))
    ours = ("--target", "v5e", "--python", python, "-o", str(output))
    status, _, errors = call("capture", str(module), *ours, "--devices", "0")
    assert status == 0, errors
    program = read_program(output)
    assert program.name == "step"
    assert program.provenance["function"] == f"{module.name}:step"
    assert UNNAMED not in program.provenance
    assert read_module(output) == b"a module"  # as the reader left it
    status, _, errors = call(
        "capture", str(module), "--target", "v5e", "--python", python, "-o", str(output), "--complete"
    )
    assert status == 2
    assert "is a file, and only PKG.MODULE:FUNCTION can" in errors


def test_a_module_is_tuned_into_a_file_of_flags(tmp_path: Path, module: Path) -> None:
    options, python = tmp_path / "options.flags", str(recorded(tmp_path, WITH_CYCLES))
    status, _, errors = call(
        *("tune", str(module), "--target", "v5e", "--minutes", "0.1", "--solver", "order-search", "--python", python),
        *("--option", "xla_tpu_of_mine=7", "-o", str(options), "--json", str(tmp_path / "r.json"), "--devices", "0"),
    )
    assert status == 0, errors
    assert options.read_text(encoding="utf-8") == "--xla_tpu_of_mine=7\n"  # the recorded compiler knows no better ones
    assert json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))["function"] == str(module)


def test_options_are_confirmed_for_a_module(tmp_path: Path, module: Path) -> None:
    options, python = tmp_path / "options.flags", str(recorded(tmp_path, WITH_CYCLES))
    options.write_text(f"--{BANDWIDTH}=0.5\n", encoding="utf-8")
    ours = ("--target", "v5e", "--python", python, "--devices", "0")
    status, printed, errors = call("confirm", str(module), str(options), *ours)
    assert status == 0, errors
    assert "the options hold" in printed
    compilations = [request for request in requests(tmp_path) if request["through"] != "lowering"]
    assert [request["options"].get(BANDWIDTH) for request in compilations] == [None, "0.5"]


@pytest.mark.parametrize(
    ("devices", "message"),
    [("0,one", "give numbers separated by commas"), ("0,2", "each of the numbers from 0 once, e.g. 0,1,3,2")],
)
def test_an_order_of_devices_that_is_none(tmp_path: Path, module: Path, devices: str, message: str) -> None:
    ours = ("--target", "v5e:2x2", "-o", str(tmp_path / "small.json.gz"))
    status, _, errors = call("capture", str(module), *ours, "--devices", devices)
    assert status == 2
    assert f"--devices {devices}: " in errors
    assert message in errors


def test_a_function_says_its_own_devices(tmp_path: Path) -> None:
    ours = ("--target", "v5e:2x2", "-o", str(tmp_path / "small.json.gz"), "--devices", "0,1,3,2")
    status, _, errors = call("capture", "models:my_step", *ours)
    assert status == 2
    assert "--devices: only the file of a module needs them" in errors


def test_a_module_without_names_has_no_options_that_name(tmp_path: Path, unnamed: Path) -> None:
    python = str(recorded(tmp_path, WITH_CYCLES))
    tune = ("tune", str(unnamed), "--target", "v5e", "--minutes", "0.1", "--python", python, "-o", f"{tmp_path}/o.json")
    status, _, errors = call(*tune)
    assert status == 2
    assert "names of operations are missing" in errors
    assert not (tmp_path / "requests.txt").exists()
    status, _, errors = call(*tune, "--flags-only")
    assert status == 0, errors
    (tmp_path / "o.json").write_text(json.dumps({ORDER: TAKEN}), encoding="utf-8")
    status, _, errors = call("confirm", str(unnamed), f"{tmp_path}/o.json", "--target", "v5e", "--python", python)
    assert status == 2
    assert "names of operations are missing" in errors


def test_a_program_of_a_module_without_names_is_solved_and_not_imposed(tmp_path: Path, unnamed: Path) -> None:
    output, mapping = tmp_path / "small.json.gz", tmp_path / "mapping.json.gz"
    python = str(recorded(tmp_path))
    status, _, errors = call("capture", str(unnamed), "--target", "v5e", "--python", python, "-o", str(output))
    assert status == 0, errors
    program = read_program(output)
    assert program.provenance[UNNAMED] is True
    assert program.production is not None
    write_mapping(program.production, program, mapping)
    status, _, errors = call("impose", str(output), str(mapping), "--python", python, "-o", f"{tmp_path}/o.json")
    assert status == 2
    assert "names of operations are missing" in errors


@pytest.mark.parametrize("command", ["capture", "tune", "confirm"])
def test_a_file_that_holds_no_module_is_refused_before_anything_runs(tmp_path: Path, command: str) -> None:
    path = tmp_path / "notes.mlir"
    path.write_text("nothing", encoding="utf-8")
    (tmp_path / "o.json").write_text("{}", encoding="utf-8")
    python = str(recorded(tmp_path))
    given = [str(tmp_path / "o.json")] if command == "confirm" else ["-o", str(tmp_path / "made.json")]
    status, _, errors = call(command, str(path), *given, "--target", "v5e", "--python", python)
    assert status == 2
    assert f"{path}: holds none; give a lowered module" in errors
    assert not (tmp_path / "requests.txt").exists()


def test_a_dumped_module_is_the_program_of_its_function_with_the_real_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = real_python()
    (script,) = re.findall(r"```python\n(# train.py\n.*?)```", (DOCS / "modules.md").read_text(encoding="utf-8"), re.S)
    (tmp_path / "train.py").write_text(script.replace("jax.devices()", "devices"), encoding="utf-8")
    # The page's script, for a TPU that is not there, as a function and as a process that dumps.
    (tmp_path / "absent.py").write_text(ABSENT_TPU, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, **worker.compiler_settings(), "PYTHONPATH": str(tmp_path)}

    def run(**more: str) -> str:
        done = subprocess.run(
            [python, "-B", "absent.py"], env={**environment, **more}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout.rpartition("fast:")[2].strip()

    default = run(JAX_DUMP_IR_TO="ir")
    (module,) = Path("ir").glob("*jit_update*.mlir")
    for given, output in ((str(module), "module.json.gz"), ("absent:step_of", "function.json.gz")):
        status, _, errors = call("capture", given, "--quick", "--target", "v5e", "--python", str(python), "-o", output)
        assert status == 0, errors
    by_module, by_function = read_program(Path("module.json.gz")), read_program(Path("function.json.gz"))
    assert by_module.sha256 == by_function.sha256
    assert by_module.instruction_names == by_function.instruction_names

    status, _, errors = call(
        *("solve", "module.json.gz", "--solver", "order-search", "--evaluations", "200", "-o", "mapping.json.gz"),
    )
    assert status == 0, errors
    status, _, errors = call(
        *("impose", "module.json.gz", "mapping.json.gz", "--seconds", "5", "--quick", "--python", str(python)),
        *("-o", "options.flags"),
    )
    assert status == 0, errors
    assert Path("options.flags").stat().st_size > 0, (
        "eight skips of 32 MiB do not fit, and an order is known that helps"
    )
    assert run(LIBTPU_INIT_ARGS="--flagfile=options.flags") != default
