"""Real compilations become programs: instructions, buffers, loops, and the production mapping."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from compiler_cases import BEFORE, SMALL, assembled, unpacked
from printed_estimate import with_copies, without_copies

from mallocmuzero.env.capture.assemble import Assembly
from mallocmuzero.env.capture.log import read_log
from mallocmuzero.env.errors import FormatError
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, WRITE_BACK
from mallocmuzero.env.program.program import RESULT
from mallocmuzero.env.program.residencies import fit_to_loops
from mallocmuzero.env.program.target import GENERATIONS
from mallocmuzero.env.verifier.verify import verify

LOOP = Path(__file__).parent / "data" / "loop"


def test_a_compilation_becomes_a_program():
    program = assembled(SMALL)
    assert program.instruction_names[:2] == ("convolution_tanh_fusion.5", "convolution_tanh_fusion.4")
    assert program.schedule_index.tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert program.buffer_names[:2] == ("w.1", "x.1")
    assert program.size[:2].tolist() == [2048 * 2048 * 2, 4096 * 2048 * 2]
    assert program.definition[:2].tolist() == [-1, -1]
    assert program.is_output.sum() == 3
    assert program.fast_allowed.all()
    production = program.production
    assert production is not None
    assert verify(program, program.target, production) == []
    crossing = production.copies[production.copies[:, 1] == CROSS_PROGRAM]
    assert crossing[:, [0, 2]].tolist() == [[0, -1]]
    slices = production.copies[(production.copies[:, 0] == 1)][:, [4, 5]]
    assert slices.tolist() == [[i * 2**22, (i + 1) * 2**22] for i in range(4)]
    replacing = production.copies[production.copies[:, 7] >= 0]
    assert [program.instruction_names[i] for i in replacing[:, 7]] == ["slice.4"]
    assert [program.buffer_names[b] for b in replacing[0, [0, 6]]] == ["slice.4", "x.1"]
    assert program.keeps_layout is not None
    assert [program.instruction_names[t] for t in np.flatnonzero(program.keeps_layout)] == ["slice.4", "copy.1"]
    printed = program.compiler["estimate_without_copies_s"], program.compiler["estimate_with_copies_s"]
    assert (without_copies(program, production), with_copies(program, production)) == pytest.approx(printed, rel=1e-5)


def test_a_transposing_copy_does_not_keep_its_layout(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if "%slice.4 = " in line]
    changed = line.replace("{1,0:", "{0,1:", 1)
    assert changed != line
    (folder / BEFORE).write_text(text.replace(line, changed), encoding="utf-8")
    program = assembled(folder)
    assert program.keeps_layout is not None
    assert [program.instruction_names[t] for t in np.flatnonzero(program.keeps_layout)] == ["copy.1"]
    assert program.production is None
    assert program.compiler["inexpressible"]["violation: replaces"] == 1


def test_the_log_names_the_results_that_always_go_to_hbm(folder: Path):
    known = assembled(folder).hbm_accesses
    assert known is not None
    assert not known.any()
    with (folder / "log.txt").open("a", encoding="utf-8") as log:
        log.write("I0101 00:00:00.000000 1 algorithm.cc:8386] Adding required assignment: <7 slice.4> at 8 at def\n")
        log.write("I0101 00:00:00.000000 1 algorithm.cc:8386] Adding required assignment: <8 tuple.2{}> at 11 at def\n")
        # As libtpu 0.0.32 says of results of the program, which have to be in HBM at its end.
        log.write("I0101 00:00:00.000000 1 algorithm.cc:8386] Adding required assignment: <9 fusion> at 11 at def\n")
    program = assembled(folder)
    assert program.hbm_accesses is not None
    (access,) = np.flatnonzero(program.hbm_accesses).tolist()
    assert program.access_kind[access] == RESULT
    assert program.instruction_names[program.access_instruction[access]] == "slice.4"
    assert program.sha256 != assembled(SMALL).sha256
    assert program.production is not None, "the copy that replaces `slice.4` may write to fast memory"


def test_missing_dump(folder: Path):
    (folder / "compiled.txt").unlink()
    with pytest.raises(FormatError, match=r"has 0 files `compiled\.txt`"):
        assembled(folder)


def test_sizes_of_another_kind(folder: Path):
    (folder / "module.after_optimizations-buffer-assignment.txt").write_text("BufferAssignment:\n", encoding="utf-8")
    with pytest.raises(FormatError, match="no buffer assignment"):
        assembled(folder)


def test_log_of_another_compilation(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    (folder / "log.txt").write_text(text.replace("pad_maximum_fusion", "another_fusion"), encoding="utf-8")
    with pytest.raises(FormatError, match="has no instruction 'another_fusion'"):
        assembled(folder)
    with pytest.raises(FormatError, match="cannot be read"):
        read_log(folder / "nothing.txt")


def test_a_loop_without_its_body(folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", "while(%x.1), condition=%c, body=%b"), encoding="utf-8")
    with pytest.raises(FormatError, match=r"the condition of loop 'copy.1' is missing"):
        assembled(folder)


def test_a_loop_becomes_a_loop():
    """`jax.lax.scan` over twelve matrix products: the carried value is one buffer with several results."""
    program = assembled(LOOP)
    assert program.loop_trips.tolist() == [12]
    inside = range(program.loop_first[0], program.loop_last[0] + 1)
    assert [program.instruction_names[t] for t in inside] == [
        "lt.3",
        "copy.5",
        "add.5",
        "copy.18",
        "dynamic_update_slice.6",
        "fusion.12",
    ]
    carried = program.buffer_names.index("copy.16")
    results = (program.access_buffer == carried) & (program.access_kind == RESULT)
    written = [program.instruction_names[t] for t in program.access_instruction[results]]
    assert written == ["copy.16", "fusion.12"]
    assert program.is_output[carried]
    production = program.production
    assert production is not None
    assert verify(program, program.target, production) == []
    resident = production.residencies[production.residencies[:, 0] == carried]
    assert resident[:, [1, 2]].tolist() == [[0, program.num_instructions - 1]]
    back = production.copies[production.copies[:, 1] == WRITE_BACK]
    assert back[:, 2].tolist() == [program.loop_last[0]] * 2
    assert without_copies(program, production) == pytest.approx(program.compiler["estimate_without_copies_s"], rel=1e-5)


def test_a_mapping_that_breaks_the_rules_is_left_out(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    # One buffer at the place of another.
    changed = text.replace(
        "alt (off: 25165824, size: 4194304), start_time:8", "alt (off: 0, size: 4194304), start_time:8"
    )
    (folder / "log.txt").write_text(changed, encoding="utf-8")
    program = assembled(folder)
    assert program.production is None
    assert program.compiler["inexpressible"] == {"violation: overlap": 1}


def test_a_residency_that_a_loop_cuts():
    program = assembled(LOOP)
    first, last = int(program.loop_first[0]), int(program.loop_last[0])
    carried = [[0, first - 1, first + 1, 0, 0, 64], [0, last, last, 0, 0, 64]]
    found: Counter[str] = Counter()
    assert fit_to_loops(np.array(carried), program, found, set()).tolist() == [[0, first - 1, last, 0, 0, 64]]
    assert not found
    between = [1, first + 2, first + 2, 0, 0, 64]
    both = fit_to_loops(np.array([*carried, between]), program, found, {(0, last)})
    assert both.tolist() == [carried[0], between, carried[1]]
    assert not found
    fit_to_loops(np.array([carried[0], between]), program, found, {(0, first)})
    assert found["residency that a loop's border cuts"] > 0


def test_stays_that_overlap_may_be_packed_anew(tmp_path: Path) -> None:
    folder = unpacked(SMALL.parent / "carried" / "attention-v6e.tar.xz", tmp_path)
    told = assembled(folder, "v6e").production
    log = folder / "log.txt"
    text = log.read_text(encoding="utf-8")
    assert "in alt (off: 3670016, size: 8388608) defined at fusion.50 {1}" in text
    # To where another buffer lies.
    log.write_text(text.replace("(off: 3670016,", "(off: 12058624,"), encoding="utf-8")
    assert assembled(folder, "v6e").production is None
    program = Assembly(folder, GENERATIONS["v6e"], "small", "small", pack_overlaps=True).program()
    assert told is not None
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, program.production) == []
    assert np.array_equal(program.production.access_fast, told.access_fast)
    assert np.array_equal(program.production.copies, told.copies)
