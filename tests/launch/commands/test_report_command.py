"""`mallocmuzero report`: pages of mappings, runs and tunings; nothing in them asks the network."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from compiler_cases import WITH_CYCLES, recorded
from launch_cases import call
from report_cases import NAME, data_of, mapping_file, run_directory

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.program_file import write_program

DATA = Path(__file__).parents[1] / "report" / "data"


def test_a_page_of_a_mapping_says_what_is_true_of_it(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    status, printed, errors = call("report", str(mapping_file(tmp_path)), "-o", str(page), "--changes", "7")
    assert (status, printed) == (0, f"wrote {page}; open it in a browser\n"), errors
    data = data_of(page)
    program = workloads.load(NAME)
    assert program.production is not None
    (view,) = data["programs"]
    assert (view["name"], view["objective"], view["model"]) == (NAME, "robust", "msa")
    line = simulate(program, program.target, program.production)
    assert view["mappings"][1]["latency_us"] == pytest.approx(line.latency_s * 1e6)
    assert len(view["mappings"][1]["edges"]) == program.num_instructions + 1
    rows = {row["role"]: row for row in view["figures"]["msa"]}
    assert rows["production"]["ratio"] == 1.0
    assert rows["bound"]["us"] <= rows["known"]["us"] <= rows["ours"]["us"]
    assert {row["us"] for row in view["figures"]["robust"]} == {None}  # a ratio is no time
    assert len(view["changes"]["rows"]) == 7 < view["changes"]["count"]
    assert "sha256" in str(data["reproduce"]["facts"])


def test_what_was_known_before_is_left_out_where_the_mapping_is_better(tmp_path: Path) -> None:
    mapping, page = tmp_path / "solved.json.gz", tmp_path / "report.html"
    arguments = ("solve", "lstm-train-b64-s32", "--solver", "anneal", "--evaluations", "2000", "--objective", "msa")
    assert call(*arguments, "-o", str(mapping))[0] == 0
    assert call("report", str(mapping), "-o", str(page), "--changes", "0")[0] == 0
    (view,) = data_of(page)["programs"]
    for rows in view["figures"].values():
        ratio = {row["role"]: row["ratio"] for row in rows}
        assert ratio["bound"] <= ratio["ours"]
        assert ratio.get("known", 0.0) < ratio["ours"]
    assert view["loops"]["trips"] == [32, 32]


def test_a_page_asks_no_network(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert call("report", str(mapping_file(tmp_path)), "-o", str(page), "--changes", "0")[0] == 0
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\s\"'`]*", text)) <= {"http://www.w3.org/2000/svg"}  # a name, no address
    assert not re.search(r"\b(src|href)=\"(?!data:)|@import|url\(|fetch\(|import\(", text)


def test_names_cannot_break_out_of_the_data(tmp_path: Path) -> None:
    program = workloads.load(NAME)
    evil = "</script><script>alert(1)</script>{{SCRIPT}}"
    program = replace(program, name="mine", instruction_names=(evil, *program.instruction_names[1:]))
    moved = [variant for variant in program.variants if variant.mapping is not None]
    kept = replace(moved[0], mapping=replace(moved[0].mapping, program_sha256=program.sha256))  # type: ignore[type-var]
    program = replace(program, variants=(kept,), production=None)
    file, page = tmp_path / "mine.json.gz", tmp_path / "report.html"
    write_program(replace(program, variants=()), file)
    mapping = mapping_file(tmp_path, program)
    status, _, errors = call("report", str(mapping), "-o", str(page))
    assert (status, "--program FILE" in errors) == (2, True)
    status, _, errors = call("report", str(mapping), "--program", str(file), "-o", str(page))
    assert status == 0, errors
    assert page.read_text(encoding="utf-8").count("</script>") == 2
    (view,) = data_of(page)["programs"]
    assert view["instructions"]["name"][0] == evil
    assert view["changes"] is None  # there is nothing to compare with
    assert view["figures"]["msa"][0]["role"] == "reference"


def test_a_page_of_a_run(tmp_path: Path) -> None:
    run, page = run_directory(tmp_path), tmp_path / "report.html"
    status, _, errors = call("report", str(run), "-o", str(page), "--changes", "3")
    assert status == 0, errors
    data = data_of(page)
    assert [view["name"] for view in data["programs"]] == [NAME]  # `tiny` has no mapping yet
    assert data["programs"][0]["objective"] == "msa"  # the run's
    charts = {chart["title"]: chart for chart in data["charts"]}
    assert set(charts) == {"Best mapping so far", "Loss"}
    (curve,) = charts["Best mapping so far"]["curves"]
    assert (curve["name"], len(curve["values"]), curve["values"][0]) == (NAME, 30, 100.0)
    assert "--config" in data["reproduce"]["command"]
    assert any("1 of 2 programs" in note for note in data["reproduce"]["notes"])
    status, _, _ = call("report", str(run), "-o", str(page), "--workload", "tiny")
    assert status == 0
    (view,) = data_of(page)["programs"]
    assert [mapping["name"] for mapping in view["mappings"]] == ["XLA's default"]
    status, _, errors = call("report", str(run), "-o", str(page), "--workload", "none")
    assert (status, "has no program 'none'" in errors) == (2, True)


def test_long_curves_are_thinned_out(tmp_path: Path) -> None:
    run, page = run_directory(tmp_path, points=5000), tmp_path / "report.html"
    assert call("report", str(run), "-o", str(page), "--changes", "0")[0] == 0
    (curve,) = data_of(page)["charts"][0]["curves"]
    assert 200 < len(curve["minutes"]) <= 402
    assert curve["minutes"][-1] == pytest.approx(499.9)


def test_a_page_of_a_tuning(tmp_path: Path) -> None:
    """What the real compiler said of the README's model."""
    figures, program, page = DATA / "tuning.json", DATA / "my_model.json.gz", tmp_path / "report.html"
    status, _, errors = call("report", str(figures), "--program", str(program), "-o", str(page))
    assert status == 0, errors
    data, result = data_of(page), json.loads(figures.read_text(encoding="utf-8"))
    (view,) = data["programs"]
    assert [row["role"] for row in view["figures"]["msa"]][-2:] == ["ours", "floor"]  # nobody has sought a bound
    assert view["mappings"][0]["latency_us"] == pytest.approx(result["confirmed_us"]["msa"])
    assert [each["kept"] for each in data["tuning"]["candidates"]] == [True, False, False, False]
    assert data["tuning"]["steps"][-1]["us"] == result["confirmed_us"]
    command = data["reproduce"]["command"]
    assert "tune my_model:step --target v5e --minutes 2.0 --solver guided --objective robust --seed 0" in command
    # Beside its tuning the program is found by the name that the tuning has for it.
    for file in (figures, program):
        shutil.copy(file, tmp_path)
    assert call("report", str(tmp_path / "tuning.json"), "-o", str(page))[0] == 0
    assert len(data_of(page)["programs"]) == 1
    (tmp_path / program.name).unlink()
    assert call("report", str(tmp_path / "tuning.json"), "-o", str(page))[0] == 0
    data = data_of(page)
    assert data["programs"] == []
    assert any("--program-output" in note for note in data["reproduce"]["notes"])
    del result["candidates"][0]["kind"]
    (tmp_path / "tuning.json").write_text(json.dumps(result), encoding="utf-8")
    status, _, errors = call("report", str(tmp_path / "tuning.json"), "-o", str(page))
    assert (status, "field 'kind'" in errors) == (2, True)


def test_a_page_of_a_tuning_without_time_for_cycles_is_judged_as_its_search_was(tmp_path: Path) -> None:
    result = json.loads((DATA / "tuning.json").read_text(encoding="utf-8"))
    program = replace(workloads.load(str(DATA / "my_model.json.gz")), cycles=None, variants=())
    figures, file, page = (tmp_path / name for name in ("tuning.json", "program.json.gz", "report.html"))
    figures.write_text(json.dumps(result), encoding="utf-8")
    write_program(program, file)
    status, _, errors = call("report", str(figures), "--program", str(file), "-o", str(page))
    assert status == 0, errors
    data = data_of(page)
    assert (result["objective"], data["programs"][0]["objective"]) == ("robust", "msa")
    assert any("judged by msa" in note for note in data["reproduce"]["notes"])


def test_tune_ends_with_the_command_for_its_report(tmp_path: Path) -> None:
    options, figures, page = (tmp_path / name for name in ("options.json", "tuning.json", "report.html"))
    tune = ["tune", "models:my_step", "--target", "v5e", "--minutes", "0.12", "--solver", "order-search"]
    tune += ["--python", str(recorded(tmp_path, WITH_CYCLES)), "-o", str(options), "--json", str(figures)]
    status, printed, errors = call(*tune, "--program-output", str(tmp_path / "program.json.gz"))
    assert status == 0, errors
    last = printed.splitlines()[-1]
    assert last == f"report: mallocmuzero report {figures} -o report.html"
    assert call("report", str(figures), "-o", str(page))[0] == 0
    (view,) = data_of(page)["programs"]
    assert len(view["mappings"]) == 2


def test_what_is_wrong_is_said_before_any_work(tmp_path: Path) -> None:
    mapping = str(mapping_file(tmp_path))
    nothing, options = tmp_path / "nothing.json", tmp_path / "options.json"
    nothing.write_text("{", encoding="utf-8")
    options.write_text('{"xla_a": "1"}', encoding="utf-8")
    page = str(tmp_path / "report.html")
    for arguments, message in (
        ([mapping, "-o", str(tmp_path / "report.png")], "a report is an .html file"),
        ([mapping, "-o", str(tmp_path / "no" / "report.html")], "there is no folder"),
        ([mapping, "-o", page, "--changes", "-1"], "--changes -1"),
        ([mapping, "-o", page, "--objective", "speed"], "objective 'speed' is not known"),
        ([mapping, "-o", page, "--model", "speed"], "cost model 'speed' is not known"),
        ([mapping, "-o", page, "--workload", "tiny"], "chooses programs of a run"),
        ([mapping, "-o", page, "--program", "tiny"], "belongs to another program"),
        ([str(tmp_path / "none"), "-o", page], "cannot be read"),
        ([str(tmp_path), "-o", page], "holds no run"),
        ([str(nothing), "-o", page], "is no JSON"),
        ([str(options), "-o", page], "holds compiler options alone"),
        ([str(workloads.workload(NAME).path), "-o", page], "is a program; solve it first"),
    ):
        status, _, errors = call("report", *arguments)
        assert status == 2, arguments
        assert message in errors
    assert not Path(page).exists()
