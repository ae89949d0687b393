"""`mallocmuzero impose`: with a recorded compiler, and, where there is one, with the real one."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import SMALL, TAKEN, interpreter, real_python, recorded
from launch_cases import call

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.compiler_flags import ORDER
from mallocmuzero.env.program.mapping import CROSS_PROGRAM
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program_file import read_module, write_program
from mallocmuzero.env.workloads import MODELS_PARENT, load
from mallocmuzero.roundtrip.comparison import realised
from mallocmuzero.roundtrip.options import keep_option, order_option
from mallocmuzero.roundtrip.real_compiler import real_compiler
from mallocmuzero.roundtrip.source import find_source, program_path
from mallocmuzero.solvers.xla.decoder import Decoder

PAGE = Path(__file__).parents[3] / "docs" / "round-trip.md"


# What stands before the page's lines where there is no TPU: the function and its arguments.
ABSENT_TPU = """
import jax
from jax.experimental import topologies
from models.tiny import tiny
step, arguments = tiny()
device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:1x1").devices[0]
there = jax.sharding.SingleDeviceSharding(device)
arguments = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=there), arguments)
"""


def test_a_round_trip_with_a_recorded_compiler(tmp_path: Path) -> None:
    python = recorded(tmp_path)
    output = tmp_path / "small.json.gz"
    program = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    assert read_module(output) == b"a module"
    program = replace(program, compiler={})  # a file need not have what the compiler printed
    write_program(program, output, b"a module")
    production = program.production
    assert production is not None
    mapping = tmp_path / "mapping.json.gz"
    write_mapping(production, program, mapping)
    options, figures = tmp_path / "options.json", tmp_path / "report.json"
    arguments = ["--python", str(python), "--seconds", "0", "-o", str(options), "--json", str(figures)]
    again = tmp_path / "again.json.gz"
    (tmp_path / "requests.txt").unlink()
    status, printed, errors = call("impose", str(output), str(mapping), *arguments, "--program-output", str(again))
    assert status == 0, errors
    assert again.read_bytes() == output.read_bytes()
    assert "XLA's default stays" in printed
    compiled = [json.loads(line)[0] for line in (tmp_path / "requests.txt").read_text().splitlines()]
    assert {Path(source).name for source in compiled} == {"module.stablehlo"}  # the source is not asked for
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert result["realised"] == {"bytes": 1.0, "uses": 1.0, "copies": 1.0}
    assert result["confirmed_us"] == result["default_us"] == result["promised_us"]
    assert json.loads(options.read_text(encoding="utf-8")) == result["options"] == {}
    with real_compiler(find_source(program), python, progress=lambda line: None) as compiler:
        imposed = compiler.compile(program, {ORDER: TAKEN})
        assert np.array_equal(imposed.mapping.access_fast, production.access_fast)
        other = replace(program, compute_s=program.compute_s * 2.0)
        with pytest.raises(UserError, match="compiles to another program"):
            compiler.compile(other, {})


def test_a_program_whose_loops_have_no_names_is_said_to_be_older(tmp_path: Path) -> None:
    python = recorded(tmp_path, compilation=SMALL.parent / "loop")
    output, mapping, options = (tmp_path / name for name in ("loop.json.gz", "mapping.json.gz", "options.json"))
    program = capture("models:my_step", "v5e", output, python=python, quick=True, progress=lambda line: None)
    assert program.production is not None
    write_mapping(program.production, program, mapping)
    arguments = ["impose", str(output), str(mapping), "--python", str(python), "--seconds", "0", "-o", str(options)]
    status, printed, errors = call(*arguments)
    assert status == 0, errors
    assert "--complete" not in printed + errors
    facts = {key: entry for key, entry in program.compiler["assignment"].items() if key != "loop_operands"}
    write_program(replace(program, compiler=program.compiler | {"assignment": facts}), output, b"a module")
    status, printed, errors = call(*arguments)
    assert status == 0, errors
    assert "complete the file with `mallocmuzero capture --complete`" in printed + errors


def test_a_quick_round_trip_from_the_source_keeps_what_the_compiler_wrote(tmp_path: Path) -> None:
    python, folder = recorded(tmp_path), tmp_path / "source"
    program_file, mapping = tmp_path / "small.json.gz", tmp_path / "mapping.json.gz"
    program = capture("models:my_step", "v5e", program_file, python=python, progress=lambda line: None)
    assert program.production is not None
    write_mapping(program.production, program, mapping)
    (tmp_path / "requests.txt").unlink()
    folder.mkdir()
    keep, options = tmp_path / "kept", tmp_path / "options.json"
    status, printed, errors = call(
        *("impose", str(program_file), str(mapping), "--python", str(python), "--folder", str(folder)),
        *("--quick", "--keep", str(keep), "--candidates", "2", "--seconds", "0", "--seed", "3", "--objective", "msa"),
        *("--time-limit", "100", "--workers", "2", "-o", str(options), "--json", "-"),
    )
    assert status == 0, errors
    result = json.loads(printed)
    assert (result["objective"], len(result["candidates"]) <= 2) == ("msa", True)
    asked = [json.loads(line) for line in (tmp_path / "requests.txt").read_text(encoding="utf-8").splitlines()]
    assert {source for source, _ in asked} == {"models:my_step"}
    assert {request["through"] for _, request in asked} == {"assignment"}
    assert len(list(keep.rglob(worker.LOG_FILE))) == len(asked)


def test_what_cannot_be_imposed_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    tiny = load("tiny")
    assert tiny.production is not None
    mapping, output = tmp_path / "mapping.json.gz", tmp_path / "options.json"
    write_mapping(replace(tiny.production, copies=tiny.production.copies[1:]), tiny, mapping)
    common = ["-o", str(output), "--python", sys.executable]
    assert "is not legal" in call("impose", "tiny", str(mapping), *common)[2]
    write_mapping(tiny.production, tiny, mapping)
    nowhere = str(tmp_path / "none")
    assert "there is no such program" in call("impose", "tiny", "x", *common[:3], nowhere)[2]  # first of all
    silent = interpreter(tmp_path, "echo 'capture-error: no module m in /'; exit 3")
    assert (
        "or --folder with the folder"
        in call("impose", "tiny", str(mapping), *common[:3], str(silent), "--seconds", "0")[2]
    )
    lacking = tmp_path / "lacking.json.gz"
    write_program(replace(tiny, name="lacking", provenance={}), lacking)
    assert "lacks `provenance.function`" in call("impose", str(lacking), str(mapping), *common)[2]
    assert not output.exists()


def test_the_real_compiler_does_as_it_is_told(tmp_path: Path) -> None:
    python = real_python()
    tiny = load("tiny")
    assert tiny.production is not None
    order = Decoder(tiny).order()[::-1]
    priority = np.full(tiny.num_buffers, float(len(order)))
    priority[order] = np.arange(len(order))
    wanted = Decoder(tiny).decode(priority)
    assert realised(tiny, wanted, tiny.production)["bytes"] < 0.9
    kept = int(order[-1])
    priority[kept] = np.inf
    without = Decoder(tiny).decode(priority)
    across = int(np.setdiff1d(Decoder(tiny).crossable(), Decoder(tiny).cross)[0])
    options = order_option(tiny, order.tolist())
    # From the module in the program file, and from the source: the same.
    for source in (find_source(tiny, program_path("tiny")), find_source(tiny)):
        with real_compiler(source, python, progress=lambda line: None) as compiler:
            found = compiler.compile(tiny, options, quick=source.module is None)
            assert realised(tiny, wanted, found.mapping)["bytes"] > 0.99
            found = compiler.compile(tiny, {**options, **keep_option(tiny, [kept], [])}, quick=True)
            assert realised(tiny, without, found.mapping)["bytes"] > 0.99
            assert not found.mapping.access_fast[tiny.access_buffer == kept].any()
            found = compiler.compile(tiny, order_option(tiny, [], [across]), quick=True)
            assert found.mapping.copies[found.mapping.copies[:, 1] == CROSS_PROGRAM, 0].tolist() == [across]
            dropped = {"xla_tpu_msa_tensor_overrides": "overrides { nonsense { } }"}
            with pytest.raises(UserError, match="dropped the option"):
                compiler.compile(tiny, dropped, quick=True)
    # The page's own lines, with these options and without.
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (snippet,) = [block for block in blocks if "compiler_options=options" in block]
    seen = []
    for number, chosen in enumerate((options, {})):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "options.json").write_text(json.dumps(chosen), encoding="utf-8")
        code = f"{ABSENT_TPU}{snippet}\nprint('fast:', compiled.as_text().count('S(1)'))"
        environment = {**os.environ, **worker.compiler_settings(), "PYTHONPATH": str(MODELS_PARENT)}
        ran = subprocess.run(
            [python, "-B", "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        seen.append(ran.stdout.rpartition("fast:")[2].strip())
    assert seen[0] != seen[1]
