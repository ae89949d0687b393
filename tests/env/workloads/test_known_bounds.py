"""The records of `benchmarks/bounds/measure.py`: read for just the program and cycle table they were made of."""

import dataclasses
import json
from pathlib import Path

import pytest

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.physics.cost import CYCLES, MSA, available_models
from mallocmuzero.env.physics.objective import ROBUST, make_judge
from mallocmuzero.env.workloads import load, names
from mallocmuzero.env.workloads.known_bounds import PATH, judged_by, known


def records() -> list[dict[str, object]]:
    return list(json.loads(PATH.read_text(encoding="utf-8"))["records"])


def test_every_record_is_consistent() -> None:
    assert records()
    for record in records():
        bound_, best, production = (record[key] for key in ("bound", "best_known", "production"))
        assert isinstance(bound_, float)
        assert isinstance(best, float)
        assert isinstance(production, float)
        assert 0 < bound_ <= best <= production * (1 + 1e-12), record["program"]
        assert record["bound_proved"] == (best <= bound_ * 1.001)
        for figure in (record["relaxation"], record["integer"]):
            assert figure is None or (isinstance(figure, float) and figure <= bound_ * (1 + 1e-12))


def test_production_of_the_programs_is_what_the_records_say() -> None:
    by_key = {(r["program"], r["objective"], r["judged_by"]): r for r in records()}
    met = 0
    for name in names():
        program = load(name)
        judge = make_judge(program, MSA)
        record = by_key.get((name, MSA, judged_by(judge)))
        if record is not None:
            met += 1
            assert judge.production_s == pytest.approx(record["production"], rel=1e-9)
    assert met > 0


def test_the_record_of_the_smallest_program_is_reproduced() -> None:
    program = load("tiny")
    found = bound(program, MSA, 30.0, integer=False)
    assert known(program)[MSA].bound >= found.bound_s * (1 - 1e-6)
    assert known(program)[MSA].best is not None


def test_records_of_another_program_or_table_are_not_taken(tmp_path: Path) -> None:
    program = load("tiny")
    judge = make_judge(program, MSA)
    record = {
        "program_sha256": program.sha256,
        "objective": MSA,
        "judged_by": judged_by(judge),
        "bound": 1.0,
        "bound_proved": True,
        "best_known": 1.0,
    }
    path = tmp_path / "bounds.json"
    path.write_text(json.dumps({"records": [record, {**record, "objective": ROBUST}]}), encoding="utf-8")
    assert set(known(program, path)) == {MSA}  # the other one was judged by something else
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"records": [{**record, "program_sha256": "0"}]}), encoding="utf-8")
    assert known(program, other) == {}
    assert known(dataclasses.replace(program, keeps_layout=None), path) == {}
    if CYCLES in available_models(program):
        table = program.cycles
        assert table is not None
        slower = dataclasses.replace(table, pair_cycles=table.pair_cycles + 1)
        changed = dataclasses.replace(program, cycles=slower)
        assert judged_by(make_judge(changed, CYCLES)) != judged_by(make_judge(program, CYCLES))
    assert known(program, tmp_path / "none.json") == {}
