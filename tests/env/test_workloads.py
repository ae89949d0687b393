"""The committed programs and their splits."""

import json
from pathlib import Path

import mallocmuzero.env.workloads as workloads
import numpy as np
import pytest
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.target import GENERATIONS
from mallocmuzero.env.workloads import SPLITS, load, names, packages, split, workload

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
    assert program.target == GENERATIONS[entry.target]
    elapsed = np.maximum(program.compute_s, program.bytes_total / program.target.hbm_bandwidth)
    instructions, accesses, buffers, microseconds = EXPECTED[name]
    assert (program.num_instructions, program.num_accesses, program.num_buffers) == (instructions, accesses, buffers)
    assert elapsed.sum() * 1e6 == pytest.approx(microseconds, rel=1e-4)
    assert program.provenance["function"].endswith(f":{entry.function}")
    assert program.provenance["libtpu"] == packages()["libtpu"]
    assert program.is_output.any()
    assert entry.path.stat().st_size < 256 * 1024


def test_accesses_lie_within_buffers():
    program = load("bert-train-b8")
    allowed = program.fast_allowed[program.access_buffer]
    assert np.all(program.access_bytes[allowed] >= 0)
    assert np.all(program.size > 0)
    inputs = program.definition < 0
    assert inputs.sum() > 400  # parameters, optimizer state, batch


def test_a_family_never_sits_in_two_splits():
    splits: dict[str, set[str]] = {}
    for name in names():
        splits.setdefault(workload(name).family, set()).add(split(name))
    assert all(len(found) == 1 for found in splits.values())
    assert set().union(*splits.values()) <= set(SPLITS)


def test_unknown_name_lists_the_names():
    with pytest.raises(UserError, match=r"'resnet' is neither a workload nor a program file; .*resnet50-b128"):
        load("resnet")
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
