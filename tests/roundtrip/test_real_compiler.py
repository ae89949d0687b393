"""The compiler's process: each of its failures is one line, and affects no other compilation."""

import errno
import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler_cases import SMALL, real_python, recorded, unpacked
from launch_cases import call

from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.compiler_flags import BANDWIDTH, CROSS_PROGRAM
from mallocmuzero.env.program.cycle_table import build_table
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import RESULT
from mallocmuzero.env.program.program_file import read_program
from mallocmuzero.env.workloads import load
from mallocmuzero.roundtrip import real_compiler as real_compiler_module
from mallocmuzero.roundtrip.encoding import Codec
from mallocmuzero.roundtrip.options import TRIPS, prefetch_option
from mallocmuzero.roundtrip.real_compiler import Compiled, merge_tables, real_compiler
from mallocmuzero.roundtrip.source import find_source, program_path
from mallocmuzero.solvers.order.flags import Flags

VERSIONS = "compiled with jax 1 and libtpu 2; the program was captured with jax 1 and libtpu 2"


def failing(folder: Path, change: str, options: dict[str, str], time_limit_s: float = 60.0) -> UserError:
    """Captures with a compiler in order, and returns the error of options with one that is not."""
    output = folder / "small.json.gz"
    capture("models:my_step", "v5e", output, python=recorded(folder), progress=lambda line: None)
    program = read_program(output)
    python = recorded(folder, change)
    source = find_source(program, output)
    with real_compiler(source, python, time_limit_s=time_limit_s, progress=lambda line: None) as compiler:
        compiler.compile(program, {})
        with pytest.raises(UserError) as raised:
            compiler.compile(program, options)
        compiler.compile(program, {})  # the next one is not affected
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "print('F0101 x.cc:1] Check failed: oops', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)",
            r"models:my_step: the compilation was killed by SIGSEGV \(Check failed: oops\)",
        ),
        (
            "print('F0101 x.cc:1] Check failed: oops\\nE0101 y.cc:2] Raising signal 6', file=sys.stderr, flush=True); "
            "os.kill(os.getpid(), 11)",
            r"was killed by SIGSEGV \(Check failed: oops\)",
        ),
        (
            "raise OSError(28, 'No space left on device')",
            r"the compilation ended with status 1 \(OSError: \[Errno 28\] No space left on device\)",
        ),
        ("error = 'the TPU compiler refused: INVALID_ARGUMENT: no field'", "refused: INVALID_ARGUMENT: no field"),
        ("(made / 'module.tpu_comp_env.txt').write_text('')", "dropped the option xla_msa_max_cross"),
        (
            "(made / 'module.tpu_comp_env.txt').unlink()",
            f"which options the compiler took.*{VERSIONS}",
        ),
        (
            "(made / 'log.txt').write_text('')",
            f"no `Initial resource` lines.*{VERSIONS}",
        ),
        (
            "(made / 'compiled.txt').write_text('HloModule')",
            VERSIONS,
        ),
    ],
)
def test_what_goes_wrong_in_the_compiler_is_one_line(tmp_path: Path, change: str, message: str) -> None:
    error = failing(tmp_path, f"if options:\n    {change}", {CROSS_PROGRAM: "0"})
    assert re.search(message, str(error)), str(error)


def test_a_compilation_that_takes_too_long(tmp_path: Path) -> None:
    error = failing(tmp_path, "if options:\n    time.sleep(600)", {CROSS_PROGRAM: "0"}, time_limit_s=5.0)
    assert "models:my_step: not compiled after 5 s" in str(error)


def test_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    output = tmp_path / "small.json.gz"
    python = recorded(tmp_path)
    program = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    assert program.production is not None
    with real_compiler(find_source(program, output), python, progress=lambda line: None) as compiler:
        monkeypatch.setattr(real_compiler_module, "cut_down", full)
        with pytest.raises(UserError, match=r"No space left on device\); free some space, or set TMPDIR"):
            compiler.compile(program, {})
    monkeypatch.undo()
    # Where the options cannot be written, those of before are still there.
    mapping, options = tmp_path / "mapping.json.gz", tmp_path / "options.json"
    write_mapping(program.production, program, mapping)
    options.write_text('{"mine": "1"}', encoding="utf-8")
    monkeypatch.setattr("os.fsync", full)
    status, _, errors = call(
        "impose", str(output), str(mapping), "-o", str(options), "--python", str(python), "--seconds", "0"
    )
    assert status == 2
    assert "options.json: cannot be written (No space left on device)" in errors
    assert json.loads(options.read_text(encoding="utf-8")) == {"mine": "1"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("option", [TRIPS, BANDWIDTH])
def test_only_the_option_of_trips_makes_loops_count_otherwise(tmp_path: Path, option: str) -> None:
    loops = unpacked(SMALL.parent / "loop-end" / "sums-v6e.tar.xz", tmp_path / "sums")
    change = """
if options:
    log = made / "log.txt"
    log.write_text(log.read_text().replace("trip count: 4", "trip count: 8"))
"""
    python, output = recorded(tmp_path, change, loops), tmp_path / "sums.json.gz"
    capture("models:my_step", "v6e", output, python=python)
    program = read_program(output)
    with real_compiler(find_source(program, output), python, progress=lambda line: None) as compiler:
        if option == TRIPS:
            compiled = compiler.compile(program, {option: "8"})
            assert compiled.program.loop_trips.tolist() == program.loop_trips.tolist() == [4]
        else:
            with pytest.raises(UserError, match="compiles to another program"):
                compiler.compile(program, {option: "8"})


def test_tables_are_joined_by_instruction() -> None:
    kernels = frozenset({1})
    known = build_table(
        np.array([0, 1, 0, -1]), {(0, 0): 10, (0, 1): 8, (1, 0): 5}, compilations=2, kernel_rows=kernels
    )
    seen = build_table(np.array([1, 0, 1, -1]), {(1, 2): 7, (1, 0): 9, (0, 0): 5}, compilations=1)
    table, new = merge_tables(known, seen)
    assert new == 1
    assert dict(zip(zip(table.pair_row.tolist(), table.pair_fast, strict=True), table.pair_cycles, strict=True)) == {
        (0, 0): 9,
        (0, 1): 8,
        (0, 2): 7,
        (1, 0): 5,
    }
    assert (table.compilations, table.ambiguous, table.row.tolist()) == (3, 1, known.row.tolist())
    assert table.kernel_rows == kernels


def at_once(jobs: Sequence[Callable[[], None]]) -> list[BaseException]:
    """Runs jobs in threads; returns what they raised."""
    raised: list[BaseException] = []

    def run(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 -- told to the test
            raised.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return raised


def test_two_compilers_at_once() -> None:
    python = real_python()
    tiny = load("tiny")
    source = find_source(tiny, program_path("tiny"))
    found: list[Compiled] = []

    def compile_once(options: dict[str, str]) -> None:
        with real_compiler(source, python, progress=lambda line: None) as compiler:
            found.append(compiler.compile(tiny, options, quick=True))

    jobs = [lambda options=options: compile_once(options) for options in ({}, {BANDWIDTH: "0.5"})]
    assert at_once(jobs) == []  # type: ignore[arg-type]
    assert len(found) == 2


def test_the_compiler_keeps_values_that_are_written_over(tmp_path: Path) -> None:
    """Caches of a decoding step, up to their update in place."""
    python, name = real_python(), "llama-decode-b16"
    program = load(name)
    codec = Codec(make_judge(program, "msa"), 0)
    caches = codec.keepable_values > 0
    assert caches.sum() > 20
    encoding = replace(codec.default(), kept_values=codec.keepable_values)
    foreseen = codec.decode(encoding)
    source = find_source(program, program_path(name))
    with real_compiler(source, python, keep=tmp_path, progress=lambda line: None) as compiler:
        found = compiler.compile(program, codec.options(encoding), quick=True).mapping
    assert np.array_equal(found.access_fast, foreseen.access_fast)
    late = codec.decode(codec.default()).access_fast & caches[program.access_buffer]
    assert late.any()
    assert not (foreseen.access_fast & late).all()


def test_a_kept_read_leaves_other_elements_of_a_tuple_alone(tmp_path: Path) -> None:
    python, name = real_python(), "switch-train-b4-s512"
    program = load(name)
    assert program.production is not None
    codec = Codec(make_judge(program, "msa"), 0)
    kept = (
        codec.may_keep & program.production.access_fast & (np.random.default_rng(0).random(len(codec.may_keep)) < 0.3)
    )
    encoding = replace(codec.default(), kept_reads=kept)
    foreseen = codec.decode(encoding)
    source = find_source(program, program_path(name))
    with real_compiler(source, python, keep=tmp_path, progress=lambda line: None) as compiler:
        found = compiler.compile(program, codec.options(encoding), quick=True).mapping
    assert np.array_equal(found.access_fast, foreseen.access_fast)
    beside = np.isin(program.access_instruction, program.access_instruction[kept]) & (program.access_kind == RESULT)
    assert (found.access_fast & beside).sum() > 20
    # Some are elements of a tuple as large as a kept operand: told without its index, they would be in HBM.
    keys = list(zip(program.access_instruction.tolist(), program.size[program.access_buffer].tolist(), strict=True))
    of_kept = {keys[read] for read in np.flatnonzero(kept)}
    elements = np.array([path != "{}" for path in program.access_path]) & (program.access_kind == RESULT)
    assert (found.access_fast & elements & np.array([key in of_kept for key in keys])).sum() > 10


@pytest.mark.parametrize(("name", "least"), [("strassen-8192", 50), ("gru-train-b32-s64", 100)])
def test_the_compiler_starts_prefetches_when_it_is_told(name: str, least: int, tmp_path: Path) -> None:
    python, program = real_python(), load(name)
    codec = Codec(make_judge(program, "msa"), 0)
    # Half way between the definition of the buffer and the access, or the first instruction of the loop.
    uses = np.append(program.access_instruction, program.loop_first[codec.by_loops[:, 0]])
    wanted = (np.maximum(program.definition[codec.started], 0) + uses) // 2
    wanted[: program.num_accesses][program.access_kind == RESULT] = -1
    wanted[~codec.startable] = -1
    eagerness = codec.decoder(Flags()).eagerness(wanted)
    source = find_source(program, program_path(name))
    with real_compiler(source, python, keep=tmp_path, progress=lambda line: None) as compiler:
        compiler.compile(program, prefetch_option(program, eagerness, codec.loop_operands), quick=True)
    (log,) = tmp_path.rglob("log.txt")
    told = re.findall(
        r"Overriding prefetch for (\S+) operand number (\d+) operand index (\S+) .*"
        r" live range \((\d+), (\d+)\) .* to (\d+)",
        log.read_text(encoding="utf-8"),
    )
    place = {
        (program.instruction_names[t], str(number), path or "{}"): index
        for index, (t, number, path) in enumerate(
            zip(program.access_instruction, program.access_number, program.access_path, strict=True)
        )
    }
    for at, operands in enumerate(codec.loop_operands, program.num_accesses):
        place |= {(operand.name, "0", operand.path): at for operand in operands}
    compared = 0
    for *use, begin, end, start in told:
        after = int(program.schedule_index[wanted[place[tuple(use)]]])
        if int(begin) <= after < int(end):
            assert int(start) == after
            compared += 1
    assert compared > least
