"""The documented schemas describe what is written, and refuse what is not."""

import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from programs import make_mapping, make_program, programs

from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping import COPY_FIELDS, RESIDENCY_FIELDS
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import PROBLEM_FIELDS, Program, all_hbm
from mallocmuzero.env.program.program_file import write_program
from mallocmuzero.env.program.variant import Variant

ROOT = Path(__file__).parents[3]
COMMITTED = sorted((ROOT / "env/workloads/programs").glob("*.json.gz"))


def validator(name: str) -> Any:
    version = {"program": 2, "mapping": 1}[name]
    schema = json.loads((ROOT / f"docs/schema/{name}-{version}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def load(path: Path) -> Any:
    return json.loads(gzip.decompress(path.read_bytes()))


# The schema wants the items of these lists to differ.
UNIQUE = ("keeps_layout", "accesses_fast")


def distinct(value: Any) -> Any:
    """Returns a document whose lists of numbers and texts hold each of them once: equal items are judged equally."""
    if isinstance(value, dict):
        return {name: item if name in UNIQUE else distinct(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if any(isinstance(item, list | dict) for item in value):
        return [distinct(item) for item in value]
    return list({(type(item), item): item for item in value}.values())


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs())
def test_written_files_fit_the_schemas(program: Program, tmp_path: Path) -> None:
    write_program(program, tmp_path / "p.json.gz")
    validator("program").validate(load(tmp_path / "p.json.gz"))
    write_mapping(all_hbm(program), program, tmp_path / "m.json.gz")
    validator("mapping").validate(load(tmp_path / "m.json.gz"))


def full_program() -> Program:
    program = make_program(
        [("copy.a", 1.0, ["w"], ["x"])], {"w": {"size": 8, "input": True}, "x": 8}, loops=[(0, 0, 2)]
    )
    production = make_mapping(program, [("copy.a", "x")], [("x", 0, 0, 0)], [{"buffer": "x", "start": -1, "end": 1}])
    cycles = build_table(np.array([0], np.int32), {(0, 0): 1500, (0, 3): 1200}, 2)
    variants = (
        Variant({}, {"msa": 2.0, "cycles": None}),
        Variant({"xla_flag": "0.5"}, {"msa": 1.0, "cycles": 1.0}, {"another reason": 1}, production),
    )
    return make_program(
        [("copy.a", 1.0, ["w"], ["x"])],
        {"w": {"size": 8, "input": True}, "x": 8},
        loops=[(0, 0, 2)],
        production=production,
        cycles=cycles,
        variants=variants,
        keeps_layout=np.array([True]),
        compiler={"estimate_with_copies_s": 1.0},
    )


def test_every_section_filled(tmp_path: Path) -> None:
    program = full_program()
    write_program(program, tmp_path / "p.json.gz")
    document = load(tmp_path / "p.json.gz")
    validator("program").validate(document)
    assert document["production"]["residencies"]["high"] == [8]
    assert document["keeps_layout"] == [0]
    assert program.production is not None
    write_mapping(program.production, program, tmp_path / "m.json.gz")
    validator("mapping").validate(load(tmp_path / "m.json.gz"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("version",), 1),
        (("sha256",), "0"),
        (("target", "alignment"), 0),
        (("instructions", "compute_s"), [-1.0]),
        (("accesses", "kind"), [2, 1]),
        (("buffers", "size"), [8.5, 8]),
        (("production", "copies", "direction"), [3]),
        (("cycles", "pairs", "fast"), [1]),
        (("cycles", "pairs", "fast"), ["0x1", "1"]),
        (("cycles", "pairs", "cycles"), [-1, 2]),
        (("cycles", "row"), [-2]),
        (("keeps_layout",), [-1]),
        (("keeps_layout",), [0, 0]),
        (("keeps_layout",), [True]),
        (("variants",), [{"options": {}}]),
        (("variants", 1, "options", "xla_flag"), 0.5),
        (("variants", 1, "latency_s", "msa"), -1.0),
        (("variants", 1, "mapping", "copies", "direction"), [3]),
        (("unknown",), 0),
    ],
)
def test_schema_refuses(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    write_program(full_program(), tmp_path / "p.json.gz")
    document = load(tmp_path / "p.json.gz")
    validator("program").validate(document)
    inner = document
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    assert not validator("program").is_valid(document)


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.name)
def test_committed_programs_fit_the_schema(path: Path) -> None:
    validator("program").validate(distinct(load(path)))


def test_only_the_distinct_items_of_a_list_count() -> None:
    """As `distinct` has it."""
    text = (ROOT / "docs/schema/program-2.schema.json").read_text()
    assert not any(f'"{word}"' in text for word in ("minItems", "maxItems", "prefixItems", "contains"))
    assert text.count("uniqueItems") == len(UNIQUE)
    document = {"a": [1, True, 1.0, 1], "b": [[2, 2], {"c": ["x", "x"]}], "keeps_layout": [0, 0]}
    assert repr(distinct(document)) == "{'a': [1, True, 1.0], 'b': [[2], {'c': ['x']}], 'keeps_layout': [0, 0]}"


def test_schema_and_page_name_every_field() -> None:
    """A column that is added to the code has to be documented."""
    program, mapping = (validator(name).schema["properties"] for name in ("program", "mapping"))
    page = (ROOT / "docs/formats.md").read_text()
    tables = {**{s: (program, f) for s, f in PROBLEM_FIELDS.items()}}
    tables |= {"residencies": (mapping, RESIDENCY_FIELDS), "copies": (mapping, COPY_FIELDS)}
    for section, (schema, fields) in tables.items():
        assert set(schema[section]["properties"]) == set(fields)
        assert all(f"`{field}`" in page for field in fields)
