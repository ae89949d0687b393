"""The output of `--json` is a contract: later fields are added, none is renamed or goes."""

import json
from pathlib import Path
from typing import Any

import pytest
from launch_cases import WORKLOAD, call, train_arguments

from mallocmuzero.env import workloads
from mallocmuzero.env.physics.cost import MODELS, available_models
from mallocmuzero.env.physics.objective import resolve
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.launch.commands.workloads import describe


def result_of(*arguments: str) -> tuple[int, Any]:
    """Calls the command with `--json -`; returns exit status and result."""
    status, output, _ = call(*arguments, "--json", "-")
    return status, json.loads(output)


def test_workloads() -> None:
    status, entries = result_of("workloads")
    assert status == 0
    assert [entry["name"] for entry in entries] == workloads.names()
    for entry in entries:
        assert {"name", "family", "split", "target", "instructions", "buffers", "decisions", "latency_us"} <= set(entry)
        assert {"accesses", "loops", "chips", "part"} <= set(entry)
        assert set(entry["latency_us"]) == set(MODELS)
        for model in entry["latency_us"]:
            latency = entry["latency_us"][model]
            if latency["all_hbm"] is None:
                assert set(latency.values()) == {None}, "a model prices a program or does not"
                continue
            floor = latency["floor"] * (1 - 1e-9)  # the simulator sums in another order
            assert floor <= latency["all_hbm"]
            if latency["production"] is not None:  # which may be slower than all in HBM: XLA's plan waits for copies
                assert floor <= latency["production"] <= latency["production_cold"] * (1 + 1e-9)
                assert latency["production_waits"] >= 0
    assert {entry["name"]: entry["loops"] for entry in entries}["lstm-train-b64-s32"] == 2
    (program,) = [entry for entry in entries if entry["name"] == WORKLOAD]
    assert program["latency_us"]["msa"]["production"] == pytest.approx(3266.5, abs=0.1)  # microseconds
    assert result_of("workloads", "--split", "heldout")[1] == [
        entry for entry in entries if entry["split"] == "heldout"
    ]


def test_a_program_of_the_corpus_is_described_like_any_other() -> None:
    name = next(n for n in workloads.corpus_names("validation") if workloads.load(n).cycles is None)
    entry = describe(workloads.load(name), workloads.split(name), workloads.workload(name).part)
    assert (entry["name"], entry["split"], entry["part"], entry["chips"]) == (name, "corpus", "validation", 1)
    assert entry["accesses"] >= 40
    latency = entry["latency_us"]["msa"]
    assert latency["floor"] < latency["production"]
    assert (latency["bound"], latency["production_tuned"]) == (None, None)
    assert set(entry["latency_us"]["cycles"].values()) == {None}


def test_verify_passes_the_production_mapping(tmp_path: Path) -> None:
    program = workloads.load(WORKLOAD)
    assert program.production is not None
    path = tmp_path / "mapping.json.gz"
    write_mapping(program.production, program, path)
    expected = simulate(program, program.target, program.production, "msa").latency_s * 1e6
    for mapping in (str(path), "production"):
        status, result = result_of("verify", WORKLOAD, mapping)
        assert status == 0
        assert result["verified"] is True
        assert result["violations"] == []
        assert result["latency_us"]["msa"] == pytest.approx(expected)
        assert set(result["latency_us"]) == set(result["of_production"]) == set(MODELS)
        assert result["of_production"]["msa"] == pytest.approx(1.0)
        priced = "cycles" in available_models(program)
        assert (result["latency_us"]["cycles"] is not None) == (result["exact"] is not None) == priced


def test_verify_names_what_is_wrong(tmp_path: Path) -> None:
    program = workloads.load(WORKLOAD)
    production = program.production
    assert production is not None
    moved = production.residencies.copy()
    moved[0, 3] += 1  # the offset
    broken = Mapping(program.sha256, production.access_fast, moved, production.copies)
    path = tmp_path / "mapping.json.gz"
    write_mapping(broken, program, path)
    status, result = result_of("verify", WORKLOAD, str(path))
    assert status == 1
    assert result["verified"] is False
    assert result["latency_us"] == dict.fromkeys(MODELS)
    assert result["exact"] is None
    violation = result["violations"][0]
    assert set(violation) >= {"kind", "instruction", "instruction_name", "buffer", "buffer_name", "message"}
    assert "alignment" in {entry["kind"] for entry in result["violations"]}


def test_evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir = tmp_path / "run"
    assert call(*train_arguments(run_dir, "--steps", "24"))[0] == 0  # some games end
    status, entries = result_of("evaluate", str(run_dir), "--workload", WORKLOAD, "--simulations", "2")
    assert status == 0
    solvers = ["all-hbm", "random", "greedy", "production", "best-flags"]
    solvers += ["muzero-policy", "muzero-search", "muzero-best"]
    assert [entry["solver"] for entry in entries] == [*solvers, "muzero-or-production"]
    # A split, of one program here: the same.
    monkeypatch.setattr(workloads, "names_of", {"control": [WORKLOAD]}.__getitem__)
    status, printed, progress = call(
        "evaluate", str(run_dir), "--split", "control", "--simulations", "2", "--json", "-"
    )
    assert status == 0
    assert progress.splitlines()[-3:] == [
        f"{WORKLOAD}: the policy plays",
        f"{WORKLOAD}: the search plays, 2 simulations a move",
        f"{WORKLOAD}: beside the references (1 of 1)",
    ]
    of_split = json.loads(printed)
    assert [(entry["solver"], entry["latency_us"]) for entry in of_split] == [
        (entry["solver"], entry["latency_us"]) for entry in entries
    ]
    by_solver = {entry["solver"]: entry for entry in entries}
    for entry in entries:
        assert entry["program"] == WORKLOAD
        assert entry["model"] == entry["objective"] == resolve(workloads.load(WORKLOAD))
        assert set(entry["model_us"]) == set(MODELS)
        assert entry["model_us"]["msa"] > 0
        assert entry["verified"] is True
        assert entry["production_us"] == by_solver["production"]["latency_us"]
        assert entry["seconds"] >= 0
    assert by_solver["muzero-search"]["simulations"] == 2
    better = by_solver["muzero-or-production"]["latency_us"]
    assert better == min(e["latency_us"] for name, e in by_solver.items() if name == "production" or "muzero" in name)
    # `train` has left the same evaluation, and the mapping that it reports.
    written = json.loads((run_dir / "evaluation.json").read_text())
    assert [entry["solver"] for entry in written] == [entry["solver"] for entry in entries]
    agent_us = min(
        entry["latency_us"]
        for entry in written
        if entry["solver"].startswith("muzero-") and "or" not in entry["solver"]
    )
    status, verified = result_of("verify", WORKLOAD, str(run_dir / "best" / f"{WORKLOAD}.mapping.json.gz"))
    assert status == 0
    (by_model,) = [entry["model_us"] for entry in written if entry["latency_us"] == agent_us][:1]
    assert verified["latency_us"] == {model: us and pytest.approx(us) for model, us in by_model.items()}
    assert (run_dir / "best" / f"{WORKLOAD}.png").stat().st_size > 10_000
