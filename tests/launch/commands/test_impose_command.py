"""The round trip: options made from a mapping, what the compiler took of them, and what of the mapping came true."""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import interpreter, real_python, recorded
from launch_cases import call
from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.assemble import same_problem
from mallocmuzero.env.program.compiler_flags import CROSS_PROGRAM, LOOP_OPTIMISER, ORDER
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_module, write_program
from mallocmuzero.env.workloads import MODELS_PARENT, load, workload
from mallocmuzero.roundtrip.compile import imposer, merged
from mallocmuzero.roundtrip.confirm import candidates_of
from mallocmuzero.roundtrip.options import PREFETCHES, check_taken, flag_options, order_option, prefetch_option
from mallocmuzero.roundtrip.realised import gains, realised
from mallocmuzero.roundtrip.source import Source, find_source, program_path
from mallocmuzero.roundtrip.translate import starts_of, translate
from mallocmuzero.solvers.order.individual import Flags
from mallocmuzero.solvers.xla.decoder import Decoder
from programs import make_mapping, make_program

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
ENVIRONMENT = """
# xla_tpu_msa_sort_order_overrides in the current tpu_comp_env has a non-default value. Default flag value:
xla_tpu_msa_sort_order_overrides {
  overrides {
    hlo_position_matcher {
      instruction_name_regex: "a[.]1"
    }
    override_options {
      assign_value: -5
    }
  }
}
xla_msa_max_cross_program_prefetches: 0
"""
TAKEN = 'overrides { hlo_position_matcher { instruction_name_regex: "a[.]1" } override_options { assign_value: -5 } }'


def small_program() -> Program:
    """One input, used late; a value of two."""
    return make_program(
        [("a.1", 1.0, ["x"], ["y{1}"]), ("b", 2.0, ["y{1}"], ["z"]), ("c.2", 1.0, ["z", "x"], ["out"])],
        {"x": {"size": 16, "input": True}, "y{1}": 24, "z": 32, "out": {"size": 8, "output": True}},
    )


# ---- options --------------------------------------------------------------------------------------------------------


def test_an_order_names_every_value_of_a_buffer() -> None:
    program = small_program()
    text = order_option(program, [2, 1])[ORDER]
    names = ['"z" }', '"b" }', '"y" tuple_index { index: 1 } }', '"a[.]1" }']
    places = [text.index(f"instruction_name_regex: {name}") for name in names]
    assert places == sorted(places)
    assert text.count("assign_value: -2") == text.count("assign_value: -1") == 2
    assert order_option(program, []) == {}


def test_a_start_names_the_use_and_the_instruction_before() -> None:
    program = small_program()
    wanted = np.full(program.num_accesses, -1)
    wanted[(program.access_instruction == 2) & (program.access_buffer == 0)] = 0
    assert prefetch_option(program, wanted) == {
        PREFETCHES: 'overrides { hlo_operand_filter { instruction_name_regex: "c[.]2" operand_number: 1 } '
        'override_options { after_instruction { instruction_name_regex: "a[.]1" } } }'
    }
    assert prefetch_option(program, np.full(program.num_accesses, -1)) == {}


def test_flags() -> None:
    assert flag_options(Flags()) == {}
    options = flag_options(Flags(0.5, loop_optimiser=False, cross_program=False, slices=False, overlap=2.0))
    assert options[LOOP_OPTIMISER] == "enabled: false"
    assert sorted(options.values()) == ["0", "0.5", "1", "4", "enabled: false"]


def test_options_that_were_dropped_are_told(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="which options the compiler took"):
        check_taken(tmp_path, {})
    (tmp_path / "m.tpu_comp_env.txt").write_text(ENVIRONMENT, encoding="utf-8")
    check_taken(tmp_path, {ORDER: TAKEN, CROSS_PROGRAM: "0"})
    for flag, value in (
        (ORDER, TAKEN + " " + TAKEN),
        (ORDER, TAKEN.replace("-5", "-6")),
        (CROSS_PROGRAM, "1"),
        (LOOP_OPTIMISER, "enabled: false"),
    ):
        with pytest.raises(UserError, match=f"dropped the option {flag}"):
            check_taken(tmp_path, {flag: value})


# ---- figures --------------------------------------------------------------------------------------------------------


def test_tables_are_joined_by_instruction() -> None:
    known = build_table(np.array([0, 1, 0, -1]), {(0, 0): 10, (0, 1): 8, (1, 0): 5}, compilations=2)
    seen = build_table(np.array([1, 0, 1, -1]), {(1, 2): 7, (1, 0): 9, (0, 0): 5}, compilations=1)
    table, new = merged(known, seen)
    assert new == 1
    assert dict(zip(zip(table.pair_row.tolist(), table.pair_fast, strict=True), table.pair_cycles, strict=True)) == {
        (0, 0): 9,
        (0, 1): 8,
        (0, 2): 7,
        (1, 0): 5,
    }
    assert (table.compilations, table.ambiguous, table.row.tolist()) == (3, 1, known.row.tolist())


def test_what_came_true() -> None:
    program = small_program()
    copy = {"buffer": "x", "start": 0, "end": 2}
    wanted = make_mapping(program, [("c.2", "x")], [("x", 1, 2, 0)], [copy])
    assert realised(program, wanted, wanted) == {"bytes": 1.0, "uses": 1.0, "copies": 1.0}
    other = make_mapping(program, [("b", "z"), ("c.2", "z")], [("z", 1, 2, 0)])
    found = realised(program, wanted, other)
    moved = 16 + 24 + 24 + 32 + 32 + 16 + 8
    assert found == {"bytes": pytest.approx(1 - (16 + 32 + 32) / moved), "uses": pytest.approx(4 / 7), "copies": 0.0}
    assert starts_of(program, wanted).tolist() == [-1, -1, -1, -1, -1, 0, -1]


def test_the_share_of_a_gain() -> None:
    found = gains(
        {"msa": 100.0, "cycles": None, "x": 5.0},
        {"msa": 80.0, "cycles": 1.0, "x": 6.0},
        {"msa": 110.0, "cycles": 1.0, "x": 4.0},
    )
    assert found["msa"] == {"promised_percent": 20.0, "confirmed_percent": -10.0, "share": -0.5}
    assert found["cycles"]["share"] is None
    assert found["x"] == {"promised_percent": -20.0, "confirmed_percent": 20.0, "share": None}


# ---- where the function is ------------------------------------------------------------------------------------------


def test_where_the_function_is(tmp_path: Path) -> None:
    tiny = load("tiny")
    assert find_source(tiny).function == workload("tiny").reference
    mine = replace(tiny, name="mine", provenance={"function": "m:f", "topology": "v5e:1x1", "jax": "1"})
    assert find_source(mine, folder=Path("/x")) == Source("m:f", "v5e:1x1", Path("/x"), {}, {"jax": "1"})
    assert same_problem(tiny, mine)
    assert same_problem(tiny, replace(tiny, access_bytes=tiny.access_bytes * (1 + 1e-7)))
    assert not same_problem(tiny, replace(tiny, access_bytes=tiny.access_bytes * (1 + 1e-4)))
    assert not same_problem(tiny, replace(tiny, size=tiny.size + 1))
    for lacking in ({}, {"function": 3}, {"function": "m:f"}):
        with pytest.raises(UserError, match=r"lacks `provenance\.(function|topology)`"):
            find_source(replace(tiny, name="mine", provenance=lacking))
    # The file's own module serves unless a folder is named.
    write_program(mine, tmp_path / "mine.json.gz", b"module")
    assert find_source(mine, tmp_path / "mine.json.gz").module == b"module"
    assert find_source(mine, tmp_path / "mine.json.gz", Path("/x")).module is None


# ---- translation ----------------------------------------------------------------------------------------------------


def test_the_compilers_own_mapping_needs_no_options() -> None:
    tiny = load("tiny")
    assert tiny.production is not None
    (found,) = translate(make_judge(tiny), tiny.production, decodes=1)
    assert (found.kind, found.options, found.decodes) == ("default", {}, 1)
    assert realised(tiny, tiny.production, found.mapping)["bytes"] == 1.0
    assert candidates_of([found]) == []


def test_an_order_is_found_again() -> None:
    tiny = load("tiny")
    judge = make_judge(tiny)
    wanted = Decoder(tiny).decode(priority=-np.arange(tiny.num_buffers))
    assert tiny.production is not None
    runs = [translate(judge, wanted, 600.0, seed=3, decodes=400) for _ in range(2)]
    assert [found.options for found in runs[0]] == [found.options for found in runs[1]]
    assert runs[0][0].judged_s <= min(judge.judge(wanted), judge.judge(tiny.production))
    assert len({found.kind for found in runs[0]}) == len(runs[0]) >= 4
    for found in runs[0]:
        flags = [flag for flag in found.options if flag not in (ORDER, PREFETCHES)]
        told = {"order": ORDER in found.options, "starts": PREFETCHES in found.options, "flags": bool(flags)}
        assert found.kind == ("+".join(what for what, is_told in told.items() if is_told) or "default")
    offered = candidates_of(runs[0])
    assert offered[0].options == runs[0][0].options
    assert all(judge.judge(found.foreseen) < judge.judge(tiny.production) for found in offered if found.foreseen)


# ---- the compiler ---------------------------------------------------------------------------------------------------


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
    with imposer(find_source(program), python, progress=lambda line: None) as compiler:
        imposed = compiler.impose(program, {ORDER: TAKEN})
        assert np.array_equal(imposed.mapping.access_fast, production.access_fast)
        other = replace(program, compute_s=program.compute_s * 2.0)
        with pytest.raises(UserError, match="compiles to another program"):
            compiler.impose(other, {})


def test_what_cannot_be_imposed_is_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    tiny = load("tiny")
    assert tiny.production is not None
    mapping, output = tmp_path / "mapping.json.gz", tmp_path / "options.json"
    write_mapping(replace(tiny.production, copies=tiny.production.copies[1:]), tiny, mapping)
    common = ["-o", str(output), "--python", str(tmp_path / "none")]
    assert "is not legal" in call("impose", "tiny", str(mapping), *common)[2]
    write_mapping(tiny.production, tiny, mapping)
    assert "cannot be run" in call("impose", "tiny", str(mapping), *common, "--seconds", "0")[2]
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
    priority = np.full(tiny.num_buffers, len(order))
    priority[order] = np.arange(len(order))
    wanted = Decoder(tiny).decode(priority)
    assert realised(tiny, wanted, tiny.production)["bytes"] < 0.9
    options = order_option(tiny, order.tolist())
    # From the module in the program file, and from the source: the same.
    for source in (find_source(tiny, program_path("tiny")), find_source(tiny)):
        with imposer(source, python, progress=lambda line: None) as compiler:
            found = compiler.impose(tiny, options, quick=source.module is None)
            assert realised(tiny, wanted, found.mapping)["bytes"] > 0.99
            dropped = {"xla_tpu_msa_tensor_overrides": "overrides { nonsense { } }"}
            with pytest.raises(UserError, match="dropped the option"):
                compiler.impose(tiny, dropped, quick=True)
    # The page's own lines, with these options and without.
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
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
