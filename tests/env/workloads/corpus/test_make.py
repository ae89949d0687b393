"""Making the corpus with a compiler that answers with a recorded compilation."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from compiler_cases import recorded

import mallocmuzero.env.workloads as workloads
from mallocmuzero.env.program.program_file import read_module, write_program
from mallocmuzero.env.workloads.corpus import __main__ as command
from mallocmuzero.env.workloads.corpus import make as making
from mallocmuzero.env.workloads.corpus.manifest import Manifest, read_manifest


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty corpus."""
    made = tmp_path / "corpus"
    monkeypatch.setattr(workloads, "CORPUS_FOLDER", made)
    monkeypatch.setattr(making, "ACCESSES", (1, 100))
    monkeypatch.setattr(making, "PRESSURE", (0.0, 100.0))
    return made


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: Path, *arguments: str) -> Manifest:
    path = tmp_path / "manifest.json"
    monkeypatch.setattr(command, "read_manifest", lambda: read_manifest(path))
    assert command.main(["--python", str(python), *arguments]) == 0
    return read_manifest(path)


def test_the_command_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    python = recorded(tmp_path)
    manifest = run(monkeypatch, tmp_path, python, "--programs", "2")
    assert [entry["name"] for entry in manifest.programs.values()] == ["corpus-0000", "corpus-0001"]
    written = (folder / "corpus-0000.json.gz").stat().st_mtime_ns
    manifest = run(monkeypatch, tmp_path, python, "--programs", "3")
    assert len(manifest.programs) == 3
    assert (folder / "corpus-0000.json.gz").stat().st_mtime_ns == written
    assert sorted(path.name for path in folder.iterdir()) == [f"corpus-000{seed}.json.gz" for seed in range(3)]
    program = workloads.load(folder / "corpus-0002.json.gz")
    entry = manifest.programs[2]
    assert (program.name, program.sha256) == (entry["name"], entry["sha256"])
    assert program.provenance["function"] == "models.generated:seed_2"
    assert (program.num_accesses, "cycles" in program.compiler) == (entry["accesses"], False)
    asked = [json.loads(line)[1]["through"] for line in (tmp_path / "requests.txt").read_text().splitlines()]
    assert asked == ["assignment"] * 3


def test_the_first_programs_are_compiled_to_the_end_on_demand(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = run(monkeypatch, tmp_path, recorded(tmp_path), "--programs", "2", "--cycles", "1", "--passes", "1")
    asked = [json.loads(line)[1]["through"] for line in (tmp_path / "requests.txt").read_text().splitlines()]
    assert asked == ["assignment", "assignment", *["code"] * 4]
    first, second = (workloads.load(folder / f"corpus-000{seed}.json.gz") for seed in range(2))
    assert (first.variants, second.variants) == ((), ())
    # The recorded compilation shows no cycles.
    assert [entry["cycles"] for entry in manifest.programs.values()] == [False, False]


def test_a_program_stays_as_it_is_if_its_cycles_cannot_be_had(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = Manifest(tmp_path / "manifest.json")
    making.make(manifest, 0, recorded(tmp_path), 60.0)
    said = making.add_cycles(manifest, 0, recorded(tmp_path, 'error = "oops"'), 60.0)
    assert said == "stays without cycles: models.generated:seed_0: oops"
    assert not manifest.programs[0]["cycles"]


def test_files_of_earlier_captures_get_what_they_lack(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = run(monkeypatch, tmp_path, recorded(tmp_path), "--programs", "1")
    path = folder / "corpus-0000.json.gz"
    before = workloads.load(path)
    assert before.sha256 == manifest.programs[0]["sha256"]
    write_program(replace(before, hbm_accesses=None), path)
    line = "I0101 00:00:00.000000 1 algorithm.cc:8386] Adding required assignment: <7 slice.4> at 8 at def"
    python = recorded(tmp_path, f'Path(made, "log.txt").open("a").write("{line}\\n")')
    manifest = run(monkeypatch, tmp_path, python, "--complete")
    after = workloads.load(path)
    assert after.hbm_accesses is not None
    assert after.hbm_accesses.sum() == 1
    assert after.sha256 == manifest.programs[0]["sha256"] != before.sha256
    assert read_module(path) is None
    (tmp_path / "requests.txt").unlink()
    run(monkeypatch, tmp_path, python, "--complete")
    assert not (tmp_path / "requests.txt").exists(), "nothing is lacking, so nothing is compiled"


def test_what_fails_is_left_out_and_tried_again(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    again = 'error = "the TPU compiler refused: oops" if sys.argv[2].endswith("_0") else None'
    manifest = run(monkeypatch, tmp_path, recorded(tmp_path, again), "--programs", "1")
    assert list(manifest.programs) == [1]
    assert manifest.left_out[0]["reason"] == "models.generated:seed_0: the TPU compiler refused: oops"
    assert not manifest.left_out[0]["final"]
    manifest = run(monkeypatch, tmp_path, recorded(tmp_path), "--programs", "1", "--again")
    assert (list(manifest.programs), manifest.left_out) == ([0, 1], {})


def test_a_program_without_decisions_is_not_wanted(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifest = Manifest(tmp_path / "manifest.json")
    monkeypatch.setattr(making, "ACCESSES", (1000, 2000))
    said = making.make(manifest, 0, recorded(tmp_path), 60.0)
    assert "accesses, outside 1000 to 2000" in said
    assert manifest.left_out[0]["final"]
    assert not folder.exists()


def test_a_reason_names_no_temporary_folder(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "manifest.json")
    making.make(manifest, 0, recorded(tmp_path, '(made / "log.txt").write_text("")'), 60.0)
    assert manifest.left_out[0]["reason"].startswith("log.txt: has no `Initial resource` lines")
