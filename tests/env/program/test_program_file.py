"""Program files are read back as they were written; a wrong one is refused, with file and field named."""

import errno
import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from committed import MOST
from file_edits import change, removing, setting, small_program
from hypothesis import given, settings
from programs import make_mapping, make_program, programs

from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program import document
from mallocmuzero.env.program.cycle_table import BY_TIME, WITHIN_SEEN, build_table
from mallocmuzero.env.program.program import PROBLEM_FIELDS, RESULT, Program, all_hbm
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.program.variant import Variant
from mallocmuzero.env.storage import atomic
from mallocmuzero.env.workloads import load


@settings(max_examples=40, deadline=None)
@given(programs())
def test_programs_are_read_back(tmp_path_factory: pytest.TempPathFactory, program: Program) -> None:
    folder = tmp_path_factory.mktemp("files")
    write_program(program, folder / "p.json.gz")
    again = read_program(folder / "p.json.gz")
    assert again.sha256 == program.sha256
    for fields in PROBLEM_FIELDS.values():
        for attribute in fields.values():
            assert np.array_equal(getattr(again, attribute), getattr(program, attribute)), attribute


@pytest.mark.parametrize("name", MOST)
def test_committed_programs_are_written_as_they_were_read(name: str, tmp_path: Path) -> None:
    program = load(name)
    write_program(program, tmp_path / "again.json.gz")
    again = read_program(tmp_path / "again.json.gz")
    assert again.sha256 == program.sha256
    assert program.production is not None
    assert again.production is not None
    assert np.array_equal(again.production.residencies, program.production.residencies)
    write_program(again, tmp_path / "twice.json.gz")
    assert (tmp_path / "twice.json.gz").read_bytes() == (tmp_path / "again.json.gz").read_bytes()


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (setting("format", value="something"), "`format`"),
        (setting("version", value=99), "`version` is 99"),
        (removing("name"), "`name` is missing"),
        (setting("family", value=7), "`family` is not a str"),
        (removing("instructions", "opcode"), "`instructions.opcode` is missing"),
        (setting("instructions", "name", 0, value=1), "`instructions.name` holds something that is not a string"),
        (setting("instructions", "compute_s", 1, value="fast"), "`instructions.compute_s[1]` is 'fast'"),
        (setting("instructions", "compute_s", 1, value=-1.0), "`instructions.compute_s[1]` is -1.0, outside"),
        (setting("instructions", "reserved", 0, value=10**12), "`instructions.reserved[0]`"),
        (setting("instructions", "schedule_index", value=[2, 1, 0]), "`instructions.schedule_index` does not increase"),
        (setting("instructions", "name", value=["a"]), "`instructions.opcode` has 3 entries where 1 are expected"),
        (setting("accesses", "buffer", 0, value=99), "`accesses.buffer[0]` is 99, outside"),
        (setting("accesses", "buffer", 0, value=10**30), "`accesses.buffer` holds a number outside"),
        (setting("accesses", "buffer", 0, value=True), "`accesses.buffer[0]` is True"),
        (setting("accesses", "kind", value=[1, 0, 0, 1, 0, 1]), "`accesses.instruction` is not in order"),
        (setting("accesses", "bytes", 0, value=float("inf")), "`accesses.bytes`"),
        (setting("accesses", "bytes", 0, value=10**400), "`accesses.bytes` holds a number that is too large"),
        (setting("compiler", value=[]), "`compiler` is not a dict"),
        (setting("compiler", value={"step": [1e999]}), "`compiler` holds a number that is not finite"),
        (setting("provenance", value={"a": {"b": float("nan")}}), "`provenance` holds a number that is not finite"),
        (setting("compiler", value={"step_s": "x"}), "`compiler.step_s` is 'x', which is no number of seconds"),
        (setting("compiler", value={"estimate_with_copies_s": [1]}), "`compiler.estimate_with_copies_s` is [1]"),
        (setting("compiler", value={"estimate_with_copies_s": -1}), "`compiler.estimate_with_copies_s` is -1"),
        (setting("buffers", "definition", value=[-1, 1, 1]), "`accesses.buffer[1]`|`buffers.definition[1]`"),
        (setting("buffers", "output", 0, value=1), "`buffers.output[0]` is 1"),
        (setting("loops", "last", 0, value=2), "`instructions.loop` does not agree"),
        (setting("loops", "parent", 0, value=0), "`loops.parent` names a loop that comes later"),
        (setting("target", "alignment", value=0), "`target.alignment` is 0, out of range"),
        (setting("target", "colour", value="red"), "`target` has the fields"),
        (setting("target", "fast_bytes", value="many"), "`target.fast_bytes` is 'many'"),
        (setting("cycles", value=[1]), "`cycles` is not a dict"),
        (setting("keeps_layout", value={}), "`keeps_layout` is not a list"),
        (setting("keeps_layout", value=[99]), "`keeps_layout[0]` is 99, which is no `copy` or `slice`"),
        (setting("keeps_layout", value=[0]), "`keeps_layout[0]` is 0, which is no `copy` or `slice`"),
        (setting("hbm_results", value=[1]), "`hbm_results` is not a dict"),
        (setting("hbm_results", value={}), "`hbm_results.access` is missing"),
        (setting("hbm_results", value={"access": [99]}), "`hbm_results.access[0]` is 99, which is no result"),
        (setting("hbm_results", value={"access": [1, 0]}), "`hbm_results.access[1]` is 0, which is no result"),
        (setting("hbm_operands", value={"access": [99]}), "`hbm_operands.access[0]` is 99, which is no operand"),
        (setting("split", value={"buffer": [1]}), "`split.bytes` is missing"),
        (setting("split", value={"buffer": [1], "bytes": []}), "`split.bytes` has 0 entries where 1 are expected"),
        (setting("split", value={"buffer": [99], "bytes": [32]}), "`split.buffer[0]` is 99, outside 0.."),
        (setting("split", value={"buffer": [1], "bytes": [10**12]}), "`split.bytes[0]` is 1000000000000, outside"),
        (setting("split", value={"buffer": [1], "bytes": [1]}), "`split.bytes[0]` is 1, outside"),
        (setting("hbm_results", value={"access": [1]}), "`sha256` does not match the contents"),
        (setting("buffers", "size", 1, value=72), "`sha256` does not match the contents"),
    ],
)
def test_a_wrong_program_file_is_refused(edit: Callable[[dict[str, Any]], None], field: str, tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    write_program(small_program(), path)
    change(path, edit)
    with pytest.raises(FormatError) as error:
        read_program(path)
    assert str(error.value).startswith(f"{path}: ")
    assert any(part in str(error.value) for part in field.split("|")), str(error.value)
    assert "; " in str(error.value), "the message says what to do"


def test_kept_layouts_are_read_back_and_may_be_unknown(tmp_path: Path) -> None:
    path = tmp_path / "program.json.gz"
    program = replace(small_program(), opcodes=("fusion", "copy", "slice"))
    assert program.keeps_layout is None
    for known in (None, np.array([False, False, False]), np.array([False, True, False])):
        write_program(replace(program, keeps_layout=known), path)
        again = read_program(path)
        assert (again.keeps_layout is None) == (known is None)
        assert np.array_equal(again.keeps_layout, known)  # type: ignore[arg-type]
        assert again.sha256 == program.sha256
    change(path, removing("keeps_layout"))
    assert read_program(path).keeps_layout is None


def test_accesses_that_are_always_in_hbm_are_read_back_and_may_be_unknown(tmp_path: Path) -> None:
    path, program = tmp_path / "program.json.gz", small_program()
    results, none = program.access_kind == RESULT, np.zeros(program.num_accesses, bool)
    for known in (None, none, results, ~results, ~none):
        written = replace(program, hbm_accesses=known)
        write_program(written, path)
        again = read_program(path)
        assert (again.hbm_accesses is None) == (known is None)
        assert np.array_equal(again.hbm_accesses, known)  # type: ignore[arg-type]
        assert again.sha256 == written.sha256
        same = known is None or not known.any()
        assert (written.sha256 == program.sha256) == same, "no such access is the same problem"


def priced() -> Program:
    """`small_program` with a cycle table and a variant; instructions 0 and 1 share a row."""
    program = small_program()
    pairs = {(0, 0): 90, (0, 3): 40, (1, 0): 7}
    variants = (
        Variant({}, {"msa": 2.0, "cycles": 3.0}),
        Variant({"xla_flag": "0.5"}, {"msa": 1.0, "cycles": None}, {"a reason": 2}, all_hbm(program)),
    )
    return replace(program, cycles=build_table(np.array([0, 0, 1], np.int32), pairs, 3, 1), variants=variants)


def test_cycles_and_variants_are_read_back(tmp_path: Path) -> None:
    write_program(priced(), tmp_path / "p.json.gz")
    again = read_program(tmp_path / "p.json.gz")
    assert again.sha256 == small_program().sha256
    assert again.cycles is not None
    assert again.cycles.row.tolist() == [0, 0, 1]
    assert again.cycles.pair_row.tolist() == [0, 0, 1]
    assert again.cycles.pair_fast == (0, 3, 0)
    assert again.cycles.pair_cycles.tolist() == [90, 40, 7]
    assert (again.cycles.compilations, again.cycles.ambiguous) == (3, 1)
    first, second = again.variants
    assert (first.options, first.latency_s, first.mapping) == ({}, {"msa": 2.0, "cycles": 3.0}, None)
    assert (second.options, second.latency_s["cycles"]) == ({"xla_flag": "0.5"}, None)
    assert second.inexpressible == {"a reason": 2}
    assert second.mapping is not None


@pytest.mark.parametrize("completion", [WITHIN_SEEN, BY_TIME])
def test_how_a_table_is_completed_is_read_back(tmp_path: Path, completion: str) -> None:
    program = priced()
    assert program.cycles is not None
    write_program(replace(program, cycles=replace(program.cycles, completion=completion)), tmp_path / "p.json.gz")
    again = read_program(tmp_path / "p.json.gz")
    assert again.cycles is not None
    assert again.cycles.completion == completion


def test_rows_of_kernels_are_read_back(tmp_path: Path) -> None:
    program = priced()
    assert program.cycles is not None
    write_program(replace(program, cycles=replace(program.cycles, kernel_rows=frozenset({0}))), tmp_path / "p.json.gz")
    again = read_program(tmp_path / "p.json.gz")
    assert again.cycles is not None
    assert again.cycles.kernel_rows == {0}


def test_a_file_of_version_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "p.json.gz"
    write_program(small_program(), path)
    change(path, removing("variants"))
    with pytest.raises(FormatError, match="`variants` is missing"):
        read_program(path)
    change(path, setting("version", value=1))
    program = read_program(path)
    assert (program.sha256, program.cycles, program.variants) == (small_program().sha256, None, ())


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (setting("cycles", value=[1]), "`cycles` is not a dict"),
        (setting("cycles", "completion", value="best"), "`cycles.completion` is 'best', neither 'within seen' nor"),
        (setting("cycles", "kernel_rows", value=[7]), "`cycles.kernel_rows` is [7], no list of rows"),
        (setting("cycles", "kernel_rows", value=0), "`cycles.kernel_rows` is 0, no list of rows"),
        (setting("cycles", "row", value=[0, 0]), "`cycles.row` has 2 entries where 3 are expected"),
        (setting("cycles", "row", 1, value=-2), "`cycles.row[1]` is -2, outside"),
        (setting("cycles", "row", value=[0, 0, 2]), "`cycles.pairs.row[2]` is 1, which no instruction has"),
        (setting("cycles", "pairs", "row", value=[0, 0, 0]), "`cycles.pairs.fast` is not in order"),
        (setting("cycles", "pairs", "row", 2, value=5), "`cycles.pairs.row[2]` is 5"),
        (setting("cycles", "pairs", "fast", 1, value="4"), "`cycles.pairs.fast[1]` is '4', no hexadecimal set of 2"),
        (setting("cycles", "pairs", "fast", 1, value="+1"), "`cycles.pairs.fast[1]` is '+1'"),
        (setting("cycles", "pairs", "fast", 1, value=3), "`cycles.pairs.fast` holds something that is not a string"),
        (setting("cycles", "pairs", "fast", 1, value="0"), "`cycles.pairs.fast` is not in order"),
        (setting("cycles", "pairs", "fast", value=["0"]), "`cycles.pairs.fast` has 1 entries where 3 are expected"),
        (setting("cycles", "pairs", "cycles", 0, value=-1), "`cycles.pairs.cycles[0]` is -1"),
        (setting("cycles", "pairs", "cycles", 0, value=1.5), "`cycles.pairs.cycles[0]` is 1.5"),
        (setting("cycles", "compilations", value=-1), "`cycles.compilations` is out of range"),
        (removing("cycles", "ambiguous"), "`cycles.ambiguous` is missing"),
        (setting("variants", value={}), "`variants` is not a list"),
        (setting("variants", 0, value=1), "`variants[0].document` is not a JSON object"),
        (setting("variants", 0, "options", value={"a": "b"}), "`variants[0].options` is not empty for the first"),
        (setting("variants", 1, "options", value={"a": 1}), "`variants[1].options` holds something that is not"),
        (setting("variants", 1, "latency_s", "msa", value=-1), "`variants[1].latency_s.msa` is -1"),
        (setting("variants", 1, "inexpressible", "a reason", value="x"), "`variants[1].inexpressible` holds"),
        (setting("variants", 1, "mapping", "accesses_fast", value=[99]), "`variants[1].mapping.accesses_fast` names"),
        (setting("variants", 1, "mapping", "program_sha256", value="0"), "belongs to another program"),
    ],
)
def test_wrong_cycles_and_variants_are_refused(
    edit: Callable[[dict[str, Any]], None], field: str, tmp_path: Path
) -> None:
    path = tmp_path / "program.json.gz"
    write_program(priced(), path)
    change(path, edit)
    with pytest.raises(FormatError) as error:
        read_program(path)
    assert field in str(error.value)


@pytest.mark.parametrize(
    ("place", "field"),
    [
        (("residencies", "end"), "residencies.end[0]` is 10000000, outside 0..2"),
        (("residencies", "buffer"), "residencies.buffer[0]` is 10000000, outside 0..2"),
        (("copies", "replaces"), "copies.replaces[0]` is 10000000, outside -1..2"),
        (("copies", "end"), "copies.end[0]` is 10000000, outside 0..3"),
    ],
)
def test_mappings_that_no_program_can_run_are_refused(tmp_path: Path, place: tuple[str, str], field: str) -> None:
    path, program = tmp_path / "program.json.gz", priced()
    rows = {"residencies": [("x", 0, 0, 0)], "copies": [{"buffer": "x", "start": -1, "end": 1}]}
    mapping = make_mapping(program, **rows)
    variants = (program.variants[0], replace(program.variants[1], mapping=mapping))
    for where, name, holder in (
        (("production",), "`production.", replace(program, production=mapping)),
        (("variants", 1, "mapping"), "`variants[1].mapping.", replace(program, variants=variants)),
    ):
        write_program(holder, path)
        assert read_program(path).sha256 == program.sha256
        change(path, setting(*where, *place, 0, value=10**7))
        with pytest.raises(FormatError) as error:
            read_program(path)
        assert name + field in str(error.value)


def test_files_that_are_no_program_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.json.gz"
    with pytest.raises(UserError, match="cannot be read"):
        read_program(path)
    write_program(small_program(), path)
    whole = path.read_bytes()
    broken = whole[:-20], whole[: len(whole) // 2]
    for content in (b"", b"HloModule jit_f", *broken, gzip.compress(b"{"), gzip.compress(b"[]")):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=r"program\.json\.gz: "):
            read_program(path)
    path.write_bytes(whole)
    monkeypatch.setattr(document, "MAX_FILE_BYTES", 100)
    with pytest.raises(FormatError, match="unpacks to more than 100 bytes"):
        read_program(path)


def test_a_disk_that_takes_nothing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.json.gz"
    write_program(small_program(), path)
    before = path.read_bytes()
    with pytest.raises(UserError, match="cannot be written"):
        write_program(small_program(), path / "below-a-file.json.gz")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write_program(small_program(), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["program.json.gz"]


@pytest.mark.parametrize(("in_hbm", "fails"), [(True, False), (False, True)])
def test_what_another_core_scatters_to_is_read_and_written_by_one_start(
    tmp_path: Path, in_hbm: bool, fails: bool
) -> None:
    program = make_program(
        [("start", 1.0, ["a", "b"], ["a"]), ("add", 1.0, ["b"], ["c"]), ("done", 0.0, ["a"], [])],
        {"a": {"size": 8, "input": True}, "b": {"size": 8, "input": True}, "c": {"size": 8, "output": True}},
        holds=[("start", "a", "done")],
    )
    by_start = (program.access_buffer == 0) & (program.access_instruction == 0)
    program = replace(program, hbm_accesses=by_start if in_hbm else None)
    write_program(program, tmp_path / "scatter.json.gz")
    if not fails:
        assert read_program(tmp_path / "scatter.json.gz").sha256 == program.sha256
        return
    with pytest.raises(UserError, match="use a buffer while a collective writes it"):
        read_program(tmp_path / "scatter.json.gz")
