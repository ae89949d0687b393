"""The manifest of the corpus: one line for each seed, programs and left-out seeds apart."""

import json
from pathlib import Path

from mallocmuzero.env.workloads.corpus.manifest import Manifest, part_of, read_manifest


def entry(seed: int) -> dict[str, object]:
    return {"name": f"corpus-{seed:04d}", "seed": seed, "kind": "plain", "part": part_of(seed)}


def test_entries_come_back_in_the_order_of_their_seeds(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    manifest = Manifest(path)
    for seed in (7, 2, 9):
        manifest.add(entry(seed))
    manifest.leave_out({"seed": 4, "description": "a network", "reason": "no", "final": False})
    again = read_manifest(path)
    assert list(again.programs) == [2, 7, 9]
    assert again.left_out[4]["reason"] == "no"
    assert len(path.read_text(encoding="utf-8").splitlines()) == 7 + 3 + 1
    assert json.loads(path.read_text(encoding="utf-8"))["version"] == 1


def test_a_seed_that_gives_a_program_at_last_is_no_longer_left_out(tmp_path: Path) -> None:
    manifest = Manifest(tmp_path / "manifest.json")
    manifest.leave_out({"seed": 4, "description": "a network", "reason": "no", "final": False})
    manifest.add(entry(4))
    again = read_manifest(manifest.path)
    assert (list(again.programs), list(again.left_out)) == ([4], [])


def test_no_file_is_an_empty_manifest(tmp_path: Path) -> None:
    manifest = read_manifest(tmp_path / "manifest.json")
    assert (manifest.programs, manifest.left_out) == ({}, {})


def test_one_seed_in_ten_is_for_validation() -> None:
    assert [part_of(seed) for seed in range(20)].count("validation") == 2
