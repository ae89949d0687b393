"""Program files of earlier captures get what they lack, and nothing else of them changes."""

import errno
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from compiler_cases import recorded, requests

from mallocmuzero.env.capture import complete as complete_module
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.compiler import ASSIGNMENT, LOWERING
from mallocmuzero.env.capture.complete import complete
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.program.program_file import read_module, read_program, write_program

LOOP = Path(__file__).parent / "data" / "loop"


def test_an_older_file_is_completed(tmp_path: Path):
    python, output = recorded(tmp_path), tmp_path / "small.json.gz"
    program = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    whole = output.read_bytes()
    assert program.keeps_layout is not None
    figures = {name: value for name, value in program.compiler.items() if name != "assignment"}
    write_program(replace(program, keeps_layout=None, hbm_accesses=None, compiler=figures), output)
    assert read_module(output) is None
    assert read_program(output).keeps_layout is None
    (tmp_path / "requests.txt").unlink()
    assert complete(output, "models:my_step", "v5e:1x1", python) == [
        "the lowered module",
        "which copies keep their layout",
        "which results always go to HBM",
        "how the compiler decided",
    ]
    assert output.read_bytes() == whole
    assert [request["through"] for request in requests(tmp_path)] == [LOWERING, ASSIGNMENT]
    assert complete(output, "models:my_step", "v5e:1x1", python) == []
    # A module that is there stays, and is what is compiled.
    write_program(replace(program, keeps_layout=None), output, b"a module")
    (tmp_path / "requests.txt").unlink()
    assert complete(output, "models:my_step", "v5e:1x1", python) == ["which copies keep their layout"]
    assert output.read_bytes() == whole
    assert [request["through"] for request in requests(tmp_path)] == [ASSIGNMENT]
    write_program(replace(program, hbm_accesses=None), output)
    assert complete(output, "models:my_step", "v5e:1x1", python, with_module=False) == [
        "which results always go to HBM"
    ]
    assert read_module(output) is None
    output.write_bytes(whole)
    # One that was damaged is made anew, as the message about it says.
    document = json.loads(gzip.decompress(whole))
    document["module"]["sha256"] = "0" * 64
    output.write_bytes(gzip.compress(json.dumps(document).encode()))
    with pytest.raises(FormatError, match="capture --complete"):
        read_module(output)
    assert complete(output, "models:my_step", "v5e:1x1", python) == ["the lowered module"]
    assert output.read_bytes() == whole
    # A function that compiles to another program is refused, and the file is as it was.
    other = tmp_path / "other.json.gz"
    write_program(replace(program, compute_s=program.compute_s * 2.0, production=None), other)
    before = other.read_bytes()
    with pytest.raises(UserError, match="models:my_step compiles to another program"):
        complete(other, "models:my_step", "v5e:1x1", python)
    assert other.read_bytes() == before


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*given: Any, **options: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    python, output = recorded(tmp_path), tmp_path / "small.json.gz"
    program = capture("models:my_step", "v5e", output, python=python, progress=lambda line: None)
    write_program(replace(program, keeps_layout=None), output)
    monkeypatch.setattr(complete_module, "cut_down", full)
    with pytest.raises(UserError, match=r"No space left on device\); free some space, or set TMPDIR"):
        complete(output, "models:my_step", "v5e:1x1", python)


def test_results_that_always_go_to_hbm_make_it_another_problem(tmp_path: Path):
    output, line = tmp_path / "small.json.gz", "algorithm.cc:8386] Adding required assignment: <7 slice.4> at 8 at def"
    log = f'Path(made, "log.txt").open("a").write("I0101 00:00:00.000000 1 {line}\\n")'
    program = capture("models:my_step", "v5e", output, python=recorded(tmp_path), progress=lambda line: None)
    assert program.production is not None
    write_program(replace(program, hbm_accesses=None), output)
    assert complete(output, "models:my_step", "v5e:1x1", recorded(tmp_path, log), with_module=False) == [
        "which results always go to HBM"
    ]
    again = read_program(output)
    assert again.hbm_accesses is not None
    assert again.hbm_accesses.sum() == 1
    assert again.sha256 != program.sha256
    assert again.production is not None
    assert np.array_equal(again.production.copies, program.production.copies)


def test_an_older_file_gets_what_loops_read(tmp_path: Path):
    python, output = recorded(tmp_path, compilation=LOOP), tmp_path / "loop.json.gz"
    program = capture("models:my_step", "v5e", output, python=python, quick=True, progress=lambda line: None)
    facts = program.compiler["assignment"]
    assert [(loop, name, path, program.buffer_names[b]) for loop, b, name, path in facts["loop_operands"]] == [
        (0, "while.2", f"{{{at}}}", buffer)
        for at, buffer in enumerate(["copy.17", "copy.16", "custom-call", "ws.1", "reduce.3.clone", "constant.29"])
    ]
    whole = output.read_bytes()
    older = {key: entry for key, entry in facts.items() if key != "loop_operands"}
    module = read_module(output)
    write_program(replace(program, compiler=program.compiler | {"assignment": older}), output, module)
    assert complete(output, "models:my_step", "v5e:1x1", python) == ["how loops name what they read"]
    assert output.read_bytes() == whole
    assert complete(output, "models:my_step", "v5e:1x1", python) == []
