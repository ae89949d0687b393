"""`mallocmuzero confirm`: the compiler's word on options, for a function as it is now."""

import json
import re
from pathlib import Path

import pytest
from compiler_cases import TAKEN, WITH_CYCLES, real_python, recorded, requests
from launch_cases import call

from mallocmuzero.env.program.compiler_flags import BANDWIDTH, ORDER, PREFETCHES

README = Path(__file__).parents[3] / "README.md"


def options_of(folder: Path, options: object) -> str:
    path = folder / "options.json"
    path.write_text(json.dumps(options), encoding="utf-8")
    return str(path)


def position(name: str) -> str:
    return TAKEN.replace("a[.]1", name)


def test_options_that_hold(tmp_path: Path) -> None:
    given = {BANDWIDTH: "0.5", ORDER: position("convolution_tanh_fusion[.]5")}
    python = str(recorded(tmp_path, WITH_CYCLES))
    status, printed, errors = call(
        *("confirm", "models:my_step", options_of(tmp_path, given), "--target", "v5e", "--python", python),
        *("--json", str(tmp_path / "r.json")),
    )
    assert status == 0, errors  # the recorded compiler makes the same of all options
    assert "all 1 names in the options match" in printed
    assert "msa sees no change; cycles sees no change" in printed
    assert "compiled with jax 1, libtpu 2" in printed
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert result["holds"]
    assert result["default_us"] == result["confirmed_us"]
    assert result["confirmed_us"]["cycles"] > 0
    compilations = [request for request in requests(tmp_path) if request["through"] != "lowering"]
    assert [request["options"].get(BANDWIDTH) for request in compilations] == [None, "0.5"]
    assert {request["through"] for request in compilations} == {"code"}


def test_what_the_program_is_compiled_with_anyway_counts_for_both(tmp_path: Path) -> None:
    python = str(recorded(tmp_path, WITH_CYCLES))
    given = {"xla_tpu_of_mine": "7", BANDWIDTH: "0.5"}
    status, printed, errors = call(
        *("confirm", "models:my_step", options_of(tmp_path, given), "--target", "v5e", "--python", python, "--quick"),
    )
    assert status == 0, errors
    assert "both compilations have xla_tpu_of_mine=7\n" in printed
    compilations = [request["options"] for request in requests(tmp_path) if request["through"] == "assignment"]
    assert [options.get("xla_tpu_of_mine") for options in compilations] == ["7", "7"]
    assert [options.get(BANDWIDTH) for options in compilations] == [None, "0.5"]


@pytest.mark.parametrize("name", [ORDER, "something else"])
def test_an_option_of_another_version_is_refused_with_a_way_out(tmp_path: Path, name: str) -> None:
    refuse = f'if "{BANDWIDTH}" in options: error = "the TPU compiler refused: No such compile option: \'{name}\'"'
    python = str(recorded(tmp_path, refuse))
    given = {BANDWIDTH: "0.5", ORDER: TAKEN}
    status, _, errors = call(
        *("confirm", "models:my_step", options_of(tmp_path, given), "--target", "v5e", "--python", python, "--quick"),
    )
    assert status == 2
    assert f"No such compile option: '{name}'" in errors
    assert ("run `mallocmuzero tune` with this one" in errors) == (name == ORDER)


def test_a_quick_look_asks_until_memory_is_assigned(tmp_path: Path) -> None:
    python = str(recorded(tmp_path, WITH_CYCLES))
    status, printed, errors = call(
        *("confirm", "models:my_step", options_of(tmp_path, {}), "--target", "v5e", "--python", python, "--quick"),
    )
    assert status == 0, errors
    assert "cycles" not in printed.splitlines()[3]
    assert "the options name no instruction" in printed
    assert {request["through"] for request in requests(tmp_path)} == {"assignment", "lowering"}


def test_names_that_match_nothing_are_told(tmp_path: Path) -> None:
    python = str(recorded(tmp_path))
    names = [f"gone[.]{number}" for number in range(7)]
    given = {ORDER: TAKEN, PREFETCHES: " ".join(position(name) for name in [*names, "w[.]1"])}
    status, printed, errors = call(
        *("confirm", "models:my_step", options_of(tmp_path, given), "--target", "v5e", "--python", python, "--quick"),
        *("--json", str(tmp_path / "r.json")),
    )
    assert status == 1, errors
    assert "8 of 9 names in the options match nothing: a[.]1, gone[.]0," in printed
    assert "and 3 more" in printed
    assert "the options do not hold: run tune again" in printed
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert result["unknown_names"] == ["a[.]1", *names]
    assert not result["holds"]


def test_worse_options_do_not_hold_with_the_real_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = real_python()
    (module,) = re.findall(r"```python\n(# my_model.py\n.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "my_model.py").write_text(module, encoding="utf-8")
    last = TAKEN.replace("a[.]1", ".*fusion.*").replace("-5", "5")
    monkeypatch.chdir(tmp_path)
    status, printed, errors = call(
        *("confirm", "my_model:step", options_of(tmp_path, {ORDER: last}), "--target", "v5e", "--python", str(python)),
        *("--json", "r.json"),
    )
    assert status == 1, errors
    assert "the options do not hold" in printed
    result = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert result["gain_percent"]["msa"] < -1.0
    assert result["confirmed_us"]["cycles"] is not None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON ("),
        ("[]", "is no JSON object; give the file that `tune -o` wrote"),
        ('{"a": 1}', "`a` is int, not a text"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_is_none_is_refused_before_anything_is_compiled(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "options.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    python = str(recorded(tmp_path))
    status, _, errors = call("confirm", "m:f", str(path), "--target", "v5e", "--python", python)
    assert status == 2
    assert f"{path}: " in errors
    assert message in errors
    assert not (tmp_path / "requests.txt").exists()
