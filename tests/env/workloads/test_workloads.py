"""The committed programs and their splits."""

import ast
import json
from pathlib import Path

import numpy as np
import pytest
from committed import LONG, LONG_PROGRAMS

import mallocmuzero.env.workloads as workloads
import mallocmuzero.env.workloads.hashes as hashes
from mallocmuzero.env.capture.environment import packages
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.program_file import read_module
from mallocmuzero.env.program.target import GENERATIONS, find_target
from mallocmuzero.env.workloads import MODELS_PARENT, SPLITS, all_names, load, names, split, workload

# Instructions, accesses, buffers, microseconds with everything in HBM.
EXPECTED = {
    "tiny": (9, 34, 22, 786.8),
    "resnet50-b128": (101, 485, 369, 9902.9),
    "resnet50-b32-v4": (96, 475, 364, 4196.9),
    "unet-b2": (1131, 3442, 1800, 1189.1),
    "unet-train-b2": (2792, 10837, 4927, 3245.1),
    "bert-train-b8": (698, 3874, 1626, 6035.0),
    "gpt2-b4-s512": (209, 837, 469, 5314.7),
}


@pytest.mark.parametrize("name", names())
def test_every_committed_program_loads(name):
    program = load(name)
    entry = workload(name)
    assert (program.name, program.family) == (name, entry.family)
    assert program.target == find_target(entry.target)[0]
    assert program.provenance["topology"] == find_target(entry.target)[1]
    assert (program.num_accesses > LONG) == (name in LONG_PROGRAMS)
    elapsed = np.maximum(program.compute_s, program.bytes_total / program.target.hbm_bandwidth)
    assert np.all(np.isfinite(elapsed))
    assert elapsed.sum() > 1e-4
    if name in EXPECTED:
        *counts, microseconds = EXPECTED[name]
        assert [program.num_instructions, program.num_accesses, program.num_buffers] == counts
        assert elapsed.sum() * 1e6 == pytest.approx(microseconds, rel=1e-4)
    assert program.provenance["function"].endswith(f":{entry.function}")
    assert program.provenance["libtpu"] == packages()["libtpu"]
    assert program.is_output.any()
    assert entry.sha256 == program.sha256, "run `python -m mallocmuzero.env.workloads.hashes`"
    assert program.keeps_layout is not None
    assert read_module(entry.path) is not None
    assert entry.path.stat().st_size < (1024 if name in LONG_PROGRAMS else 512) * 1024


def test_accesses_lie_within_buffers():
    program = load("bert-train-b8")
    allowed = program.fast_allowed[program.access_buffer]
    assert np.all(program.access_bytes[allowed] >= 0)
    assert np.all(program.size > 0)
    inputs = program.definition < 0
    assert inputs.sum() > 400  # parameters, optimizer state, batch


def test_a_family_never_sits_in_two_splits():
    splits: dict[str, set[str]] = {}
    for name in all_names():
        splits.setdefault(workload(name).family, set()).add(split(name))
    assert all(len(found) == 1 for found in splits.values())
    assert set().union(*splits.values()) <= set(SPLITS)


@pytest.mark.parametrize("name", all_names())
def test_every_line_of_the_manifest_is_whole(name):
    entry = workload(name)
    assert find_target(entry.target)
    assert entry.description
    assert entry.source
    tree = ast.parse((MODELS_PARENT / "models" / f"{entry.module}.py").read_text(encoding="utf-8"))
    described = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    # Only what is sharded is given the devices.
    assert [argument.arg for argument in described[entry.function].args.args] == ["devices"] * (":" in entry.target)
    assert ast.get_docstring(described[entry.function])
    assert entry.reference == f"models.{entry.module}:{entry.function}"


def test_the_manifest_covers_what_the_benchmark_promises():
    entries = [workload(name) for name in names()]
    assert len(entries) >= 80
    assert len({entry.family for entry in entries}) >= 25
    assert {find_target(entry.target)[0].name for entry in entries} == set(GENERATIONS)
    assert sum(":" in entry.target for entry in entries) >= 10
    assert sum("loops" in entry.description or "scanned" in entry.description for entry in entries) >= 16
    assert len(LONG_PROGRAMS) >= 8
    assert {entry.split for entry in entries} == set(SPLITS)
    assert 3 * sum("_train_" in f"{entry.function}_" for entry in entries) >= len(entries)


def test_hashes_are_written_and_nothing_else_changes(tmp_path: Path):
    text = workloads.MANIFEST.read_text(encoding="utf-8")
    copy = tmp_path / "manifest.json"
    copy.write_text(text.replace(load("tiny").sha256, "0" * 64), encoding="utf-8")
    assert hashes.main(copy) == 0
    assert copy.read_text(encoding="utf-8") == text


def test_a_workload_without_a_program_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(workloads, "PROGRAMS_FOLDER", tmp_path)
    assert names() == []
    assert "tiny" in all_names()
    with pytest.raises(UserError, match=r"'tiny' is not captured yet; run .*regenerate tiny"):
        load("tiny")


def test_an_unknown_name_brings_the_nearest_ones():
    with pytest.raises(
        UserError, match=r"no workload or program file is called 'resnet'; did you mean resnet50-b128 "
    ) as raised:
        load("resnet")
    assert "tiny" not in str(raised.value)  # all the names would be no help
    with pytest.raises(UserError, match=r"resnet/mine\.json\.gz: there is no such program file"):
        load("resnet/mine.json.gz")
    with pytest.raises(UserError, match="no workload is called 'resnet'"):
        split("resnet")


def test_a_path_is_read(tmp_path: Path):
    copy = tmp_path / "mine.json.gz"
    copy.write_bytes(workload("tiny").path.read_bytes())
    assert load(copy).sha256 == load("tiny").sha256
    copy.write_bytes(copy.read_bytes()[:500])
    with pytest.raises(FormatError, match=r"mine\.json\.gz"):
        load(copy)


def test_the_manifest_names_every_file():
    folder = Path(workloads.__file__).parent
    assert sorted(path.name for path in (folder / "programs").iterdir()) == sorted(f"{n}.json.gz" for n in names())
    document = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert document["version"] == 1
