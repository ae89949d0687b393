"""The committed corpus: names, parts, files, and what an installed package says of it."""

import configparser
from pathlib import Path

import pytest

import mallocmuzero.env.workloads as workloads
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import resolve
from mallocmuzero.env.program.live import live_pressure
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.workloads.corpus.manifest import part_of, read_manifest
from mallocmuzero.env.workloads.models.generated.drawing import draw

NAMES = workloads.corpus_names()
SAMPLE = NAMES[:: max(1, len(NAMES) // 12)]


def test_the_manifest_and_the_files_are_of_one_corpus() -> None:
    manifest = read_manifest()
    assert [f"corpus-{seed:04d}" for seed in sorted(manifest.programs)] == NAMES
    assert {path.name for path in workloads.CORPUS_FOLDER.iterdir()} == {f"{name}.json.gz" for name in NAMES}
    assert not set(manifest.programs) & set(manifest.left_out)
    for seed, entry in manifest.programs.items():
        drawn = draw(seed)
        assert (entry["kind"], entry["target"], entry["description"]) == (drawn.kind, drawn.target, drawn.description)
        assert entry["part"] == part_of(seed)


def test_it_is_small_enough_for_the_repository() -> None:
    assert sum(path.stat().st_size for path in workloads.CORPUS_FOLDER.iterdir()) < 25 * 2**20


@pytest.mark.parametrize("name", SAMPLE)
def test_programs_are_those_of_the_manifest(name: str) -> None:
    program, entry = workloads.load(name), workloads.workload(name)
    manifest = read_manifest().programs[int(name.rpartition("-")[2])]
    assert (program.name, program.family, program.target.name) == (name, entry.family, entry.target)
    assert (program.sha256, program.num_accesses) == (entry.sha256, manifest["accesses"])
    assert live_pressure(program) == pytest.approx(manifest["pressure"], abs=1e-3)
    assert program.provenance["function"] == entry.reference
    assert resolve(program) == ("robust" if manifest["cycles"] else "msa")
    assert program.production is not None
    assert verify(program, program.target, program.production) == []


def test_its_families_are_no_families_of_the_benchmark() -> None:
    families = {workloads.workload(name).family for name in workloads.all_names()}
    assert not families & {workloads.workload(name).family for name in NAMES}
    assert {workloads.split(name) for name in NAMES} == {workloads.CORPUS}
    assert not set(NAMES) & set(workloads.names())


def test_parts_and_splits_are_listed() -> None:
    train, validation = workloads.corpus_names("train"), workloads.corpus_names("validation")
    assert sorted([*train, *validation]) == sorted(NAMES)
    assert 0.05 * len(NAMES) < len(validation) < 0.15 * len(NAMES)
    assert workloads.names_of("corpus") == NAMES
    assert workloads.names_of(None) == workloads.names()
    assert workloads.names_of("control") == [n for n in workloads.names() if workloads.split(n) == "control"]
    with pytest.raises(UserError, match=r"no split is called 'corpse'; did you mean corpus"):
        workloads.names_of("corpse")


def test_the_first_programs_are_mixed() -> None:
    first = [workloads.workload(name) for name in NAMES[:20]]
    assert len({entry.family for entry in first}) >= 8
    assert {entry.target for entry in first} == {"v4", "v5e", "v5p", "v6e"}


def test_an_installed_package_has_the_names_and_says_where_the_programs_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(workloads.__file__).parents[2] / "setup.cfg")
    assert setup["options.package_data"]["mallocmuzero.env.workloads.corpus"] == "*.json"
    assert setup["options.package_data"]["mallocmuzero.env.workloads"] == "*.json, programs/*.gz"
    monkeypatch.setattr(workloads, "CORPUS_FOLDER", tmp_path)
    with pytest.raises(UserError, match="installed packages leave it out; work in a clone of the repository"):
        workloads.load(NAMES[0])
    with pytest.raises(UserError, match="installed packages leave it out"):
        workloads.names_of("corpus")
