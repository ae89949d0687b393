"""`mallocmuzero tune`: from a function to confirmed options, within its minutes; the README's lines run."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from compiler_cases import WITH_CYCLES, interpreter, real_python, recorded, requests
from launch_cases import call

from mallocmuzero.env.capture import worker
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.compiler_flags import BANDWIDTH, flag_grid
from mallocmuzero.env.program.program_file import read_module, read_program
from mallocmuzero.roundtrip.scoped_memory import SCOPED_MEMORY
from mallocmuzero.roundtrip.tune import tune

README = Path(__file__).parents[3] / "README.md"
# The README's module, for a TPU that is not there.
ABSENT_TPU = """
_here = step
def step():
    from jax.experimental import topologies
    f, arguments = _here()
    device = topologies.get_topology_desc(platform="tpu", topology_name="v5e:1x1").devices[0]
    there = jax.sharding.SingleDeviceSharding(device)
    return f, jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=there), arguments)
"""


def test_all_in_one(tmp_path: Path) -> None:
    options, figures, program = (tmp_path / name for name in ("options.json", "report.json", "program.json.gz"))
    python = str(recorded(tmp_path, WITH_CYCLES))
    arguments = [
        "--target",
        "v5e",
        "--workers",
        "2",
        "--minutes",
        "0.3",
        "--solver",
        "order-search",
        "--python",
        python,
    ]
    status, printed, errors = call(
        *("tune", "models:my_step", *arguments, "-o", str(options)),
        *("--json", str(figures), "--program-output", str(program)),
    )
    assert status == 0, errors
    assert "XLA's default stays" in printed  # the recorded compiler makes the same of all options
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert json.loads(options.read_text(encoding="utf-8")) == result["options"] == {}
    assert result["confirmed_us"] == result["default_us"]
    assert result["workers"] == 2
    known = {"capture", "solve", "translate", "scout", "confirm", "candidates", "to_the_end"}
    assert set(result["seconds"]) == known
    seconds = result["seconds"]
    assert seconds["candidates"] + seconds["to_the_end"] <= seconds["confirm"]
    steps = r"capture \d+ s, solver \d+ s, translation \d+ s, the best of a first search \d+ s, candidates"
    assert re.search(f"^time: {steps} until", printed, re.M)
    assert read_module(program) == b"a module"
    if "no time" not in errors:  # as on a machine that is very busy
        assert len(read_program(program).variants) == len(flag_grid())
        assert result["flags_us"] == result["default_us"]
    asked = requests(tmp_path)
    assert sum(request["options"] == {BANDWIDTH: "0.5"} for request in asked) >= 1  # the grid is captured


def test_flags_alone_need_no_mapping(tmp_path: Path) -> None:
    options, figures = tmp_path / "options.json", tmp_path / "report.json"
    python = str(recorded(tmp_path, WITH_CYCLES))
    status, printed, errors = call(
        *("tune", "models:my_step", "--target", "v5e", "--minutes", "0.3", "--python", python, "--flags-only"),
        *("-o", str(options), "--json", str(figures)),
    )
    assert status == 0, errors
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert result["flags_only"]
    assert {candidate["kind"] for candidate in result["candidates"]} <= {"flags", "best of the flag grid"}
    assert not any("regex" in text for candidate in result["candidates"] for text in candidate["options"].values())
    assert "mapping it" not in errors
    assert "promised" not in printed
    assert "solve" not in result["seconds"]


def test_the_best_size_of_scoped_memory_is_tuned(tmp_path: Path) -> None:
    options, figures, page = (tmp_path / name for name in ("options.json", "report.json", "report.html"))
    faster = f"""
if request["through"] == "code" and options.get("{SCOPED_MEMORY}") == "24576":
    code.write_text(code.read_text().replace('"estimated_cycles":"1000"', '"estimated_cycles":"900"'))
"""
    python = str(recorded(tmp_path, WITH_CYCLES + faster))
    status, printed, errors = call(
        *("tune", "models:my_step", "--target", "v5e", "--minutes", "0.3", "--solver", "order-search"),
        *("--python", python, "--scoped-memory", "-o", str(options), "--json", str(figures)),
    )
    assert status == 0, errors
    size = {SCOPED_MEMORY: "24576"}
    assert json.loads(options.read_text(encoding="utf-8")) == size
    result = json.loads(figures.read_text(encoding="utf-8"))
    tried = result["scoped_memory"]
    assert (tried["default_kib"], tried["kib"]) == (16384, 24576)
    assert [one["kib"] // 1024 for one in tried["sizes"]] == [16, 24, 12, 32, 20, 24]
    assert [one["scavenges"] for one in tried["sizes"]] == [False] * 5 + [True]
    assert not tried["scavenges"]
    assert result["default_us"]["cycles"] > tried["default_us"]["cycles"] == result["confirmed_us"]["cycles"]
    assert result["gain"]["cycles"]["confirmed_percent"] > 0
    assert result["seconds"]["sizes"] > 0
    assert "scoped memory: 24 MiB:" in errors
    assert "XLA, 24 MiB of scoped memory" in printed
    assert "24 MiB of scoped memory with scavenging, not 16: msa sees no change; cycles calls it" in printed
    assert "24 MiB of scoped memory, not 16: msa sees no change; cycles calls it" in printed
    assert "XLA's own mapping stays in this size: nothing that was tried is better, and the options say the" in printed
    asked = [request for request in requests(tmp_path) if request["through"] == "code"]
    assert sum(request["options"] == size for request in asked) == 1, "the capture takes it from the search"
    assert call("report", str(figures), "-o", str(page))[0] == 0
    assert "XLA, 24 MiB of scoped memory" in page.read_text(encoding="utf-8")


def test_without_a_search_other_sizes_of_scoped_memory_are_mentioned(tmp_path: Path) -> None:
    figures = tmp_path / "report.json"
    tune = ("tune", "models:my_step", "--target", "v5e", "--minutes", "0.2", "--flags-only")
    tune += ("--python", str(recorded(tmp_path, WITH_CYCLES)), "-o", str(tmp_path / "o.json"), "--json", str(figures))
    status, printed, errors = call(*tune)
    assert status == 0, errors
    assert "other sizes of scoped memory are tried with --scoped-memory" in printed
    assert json.loads(figures.read_text(encoding="utf-8"))["scoped_memory"] is None
    status, printed, errors = call(*tune, "--objective", "msa")
    assert (status, "--scoped-memory" in printed) == (0, False), errors


def test_options_of_the_users_own_are_in_every_compilation(tmp_path: Path) -> None:
    options, figures = tmp_path / "options.json", tmp_path / "report.json"
    python = str(recorded(tmp_path, WITH_CYCLES))
    tune = ["tune", "models:my_step", "--target", "v5e", "--minutes", "0.2", "--python", python, "--flags-only"]
    tune += ["-o", str(options), "--json", str(figures)]
    status, printed, errors = call(*tune, "--option", "xla_tpu_of_mine=7")
    assert status == 0, errors
    mine = {"xla_tpu_of_mine": "7"}
    assert all(request["options"].items() >= mine.items() for request in requests(tmp_path))
    assert json.loads(options.read_text(encoding="utf-8")).items() >= mine.items()
    assert json.loads(figures.read_text(encoding="utf-8"))["compiler_options"] == mine
    assert "compiled with jax 1, libtpu 2, for which the options hold" in printed
    for wrong, words in (
        (f"{BANDWIDTH}=0.5", f"--option {BANDWIDTH}: this is one of the options that are searched; leave it out"),
        ("xla_tpu_of_mine", "--option xla_tpu_of_mine: give NAME=VALUE"),
    ):
        status, _, errors = call(*tune, "--option", wrong)
        assert (status, words in errors) == (2, True), errors


def test_a_default_that_cannot_be_read_is_asked_about_all_the_same(tmp_path: Path) -> None:
    options, figures, program = (tmp_path / name for name in ("options.json", "report.json", "program.json.gz"))
    # One buffer at the place of another, but where the compiler is given options.
    spoil = """
if not options or set(options) <= {"xla_dump_to", "xla_dump_hlo_as_text", "xla_dump_hlo_pass_re"}:
    log = made / "log.txt"
    at = "alt (off: 25165824, size: 4194304), start_time:8"
    log.write_text(log.read_text().replace(at, at.replace("25165824", "0")))
"""
    python = str(recorded(tmp_path, spoil + WITH_CYCLES))
    status, printed, errors = call(
        *("tune", "models:my_step", "--target", "v5e", "--minutes", "0.12", "--solver", "order-search"),
        *("--python", python, "-o", str(options), "--json", str(figures), "--program-output", str(program)),
    )
    assert status == 0, errors
    assert "XLA's own mapping could not be read back: violation: overlap (1)" in errors
    assert "XLA's own mapping could not be read back: violation: overlap (1)" in printed.splitlines()[0]
    assert "XLA's algorithm" in printed
    result = json.loads(figures.read_text(encoding="utf-8"))
    assert "overlap" in result["production_missing"]
    assert any(tried["confirmed_us"] is not None for tried in result["candidates"]) or "no time" in errors
    assert read_program(program).production is None


def test_without_time_for_the_grid_it_is_asked_about_afterwards(tmp_path: Path) -> None:
    said: list[str] = []
    slow = "if request['through'] == 'code':\n    time.sleep(1.0)"
    program = tmp_path / "program.json.gz"
    found = tune(
        *("m:f", "v5e", 0.05, recorded(tmp_path, slow)),
        solver="order-search",
        objective="msa",
        program_output=program,
        progress=said.append,
    )
    # On a very busy machine even the default's compilation does not end.
    assert any(
        line.startswith(("no time for the code generator's cycles", "the code generator did not")) for line in said
    )
    assert found.objective == "msa"
    assert found.confirmation.kept is None
    tried = {attempt.candidate.kind for attempt in found.confirmation.attempts}
    assert {f"flags {name}" for name, options in flag_grid().items() if options} <= tried
    # The cycles of XLA's own mapping alone are no table to solve by.
    assert read_program(program).cycles is None


def test_without_time_for_the_grid_the_cycles_of_other_placements_are_estimates(tmp_path: Path) -> None:
    said: list[str] = []
    # The second compilation through code generation would not end before two fifths of the time.
    slow = "if request['through'] == 'code':\n    time.sleep(4.0)"
    found = tune("m:f", "v5e", 0.3, recorded(tmp_path, slow + WITH_CYCLES), solver="order-search", progress=said.append)
    assert found.objective == "robust"
    assert any("those of other placements are estimates" in line for line in said)
    assert any("XLA's default" in line and "(robust)" in line for line in said)
    assert found.confirmation.program.cycles is not None


def test_without_cycles_nothing_is_written(tmp_path: Path) -> None:
    options, program = tmp_path / "options.json", tmp_path / "program.json.gz"
    for seconds, minutes, message in (
        (
            600.0,
            0.1,
            r"did not end within 2 s, so that no gain could be confirmed under cycles: give --minutes 1 or more",
        ),
        (
            4.0,
            0.17,
            r"takes \d+ s and \d+ s are left, so that no gain could .*--minutes \d+ or more, or --objective msa",
        ),
    ):
        folder = tmp_path / f"{seconds:g}"
        folder.mkdir()
        slow = f"if request['through'] == 'code':\n    time.sleep({seconds})"
        status, _, errors = call(
            *("tune", "models:my_step", "--target", "v5e", "--minutes", str(minutes), "--solver", "order-search"),
            *(
                "--python",
                str(recorded(folder, slow + WITH_CYCLES)),
                "-o",
                str(options),
                "--program-output",
                str(program),
            ),
        )
        assert status == 2
        if "did not end" not in errors.splitlines()[-1] or seconds > 4.0:  # as on a machine that is very busy
            assert re.search(message, errors.splitlines()[-1]), errors
        assert f"wrote {program}" in errors.splitlines()[-1]
        assert not options.exists()
        assert read_program(program).cycles is None
        program.unlink()


def test_a_function_without_cycles_needs_msa(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the code generator tells no cycles of this function: give --objective msa"):
        tune("m:f", "v5e", 0.1, recorded(tmp_path), solver="order-search")


def test_a_code_generator_that_takes_too_long_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    slow = "if request['through'] == 'code':\n    time.sleep(600.0)"
    found = tune(
        "m:f",
        "v5e",
        0.1,
        recorded(tmp_path, slow),
        solver="order-search",
        objective="msa",
        progress=said.append,
    )
    assert "the code generator did not end within 2 s: memory is assigned without it" in said
    assert (found.objective, found.confirmation.program.cycles) == ("msa", None)
    assert found.confirmation.kept is None  # the recorded compiler makes the same of all options
    asked = requests(tmp_path)
    assert [request["through"] for request in asked].count("code") == 1  # nor is the best of all compiled to the end


def test_without_time_for_the_compiler_the_default_stays(tmp_path: Path) -> None:
    said: list[str] = []
    slow = "if request['through'] == 'assignment':\n    time.sleep(600.0)"
    found = tune(
        "m:f", "v5e", 0.1, recorded(tmp_path, slow), solver="order-search", objective="msa", progress=said.append
    )
    assert found.confirmation.kept is None
    assert found.confirmation.mapping is found.confirmation.program.production


def test_what_is_wrong_is_said_before_anything_is_written(tmp_path: Path) -> None:
    output = tmp_path / "options.json"
    output.write_text("{}", encoding="utf-8")
    common = ["--target", "v5e", "-o", str(output), "--python", str(interpreter(tmp_path, "exit 7"))]
    for arguments, message in (
        (["m:f", "--minutes", "0"], "--minutes 0: there is no time; give more than 0"),
        (["m:f", "--solver", "none"], "no solver is called 'none'; the solvers are guided, policy, anneal"),
        (["m", "--solver", "order-search"], "is no PKG.MODULE:FUNCTION"),
        (["m:f", "--seed", "-1"], "--seed -1: give 0 or more"),
        (["m:f", "--program-output", str(tmp_path)], "is a folder"),
        (["m:f", "--json", str(tmp_path / "no" / "x.json")], "--json"),
        (["m:f", "--scoped-memory", "--objective", "msa"], "--scoped-memory goes with --objective robust or cycles"),
        (["m:f", "--scoped-memory", "--option", f"{SCOPED_MEMORY}=1"], f"what --option {SCOPED_MEMORY} sets; leave"),
        (["m:f", "--objective", "speed"], "objective 'speed' is not known"),
        (["m:f", "--solver", "order-search"], "m:f: the compilation ended with status 7"),
        (["m:f", "--program-output", str(tmp_path / "no" / "p.json.gz")], "there is no folder"),
    ):
        status, _, errors = call("tune", *arguments, *common)
        assert status == 2
        assert message in errors
        assert len(errors.splitlines()[-1].split("mallocmuzero: error:")) == 2
    assert output.read_text(encoding="utf-8") == "{}"
    with pytest.raises(UserError, match="no target is called"):
        tune("m:f", "v9", 1.0, tmp_path / "python", solver="order-search")


def test_the_readmes_lines_with_the_real_compiler(tmp_path: Path) -> None:
    python = real_python()
    text = README.read_text(encoding="utf-8")
    (module,) = re.findall(r"```python\n(# my_model.py\n.*?)```", text, re.DOTALL)
    (snippet,) = re.findall(r"```python\n([^`]*compiler_options=options\)\n)```", text, re.DOTALL)
    (tmp_path / "my_model.py").write_text(module, encoding="utf-8")
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        status, printed, errors = call(
            *("tune", "my_model:step", "--target", "v5e", "--minutes", "1", "--solver", "order-search"),
            *("-o", "options.json", "--json", "report.json", "--python", str(python)),
        )
    finally:
        os.chdir(before)
    assert status == 0, errors
    result = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    for model, us in result["confirmed_us"].items():
        assert us is None or us <= result["default_us"][model], printed
    assert result["kept"] is not None, printed  # eight skips of 32 MiB do not fit, and an order is known that helps
    (tmp_path / "my_model.py").write_text(module + ABSENT_TPU, encoding="utf-8")
    seen = []
    for options in (result["options"], {}):
        (tmp_path / "options.json").write_text(json.dumps(options), encoding="utf-8")
        ran = subprocess.run(
            [python, "-B", "-c", f"{snippet}\nprint('fast:', compiled.as_text().count('S(1)'))"],
            cwd=tmp_path,
            env={**os.environ, **worker.compiler_settings(), "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-2000:]
        seen.append(ran.stdout.rpartition("fast:")[2].strip())
    assert seen[0] != seen[1]
