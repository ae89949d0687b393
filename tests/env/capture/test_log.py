"""The log of memory space assignment: its last run counts, and a truncated log is refused."""

import re
from pathlib import Path

import pytest
from compiler_cases import assembled, truncate

from mallocmuzero.env.capture.allocation import parse_allocation
from mallocmuzero.env.capture.compilation_files import cut_down
from mallocmuzero.env.capture.log import parse_log
from mallocmuzero.env.errors import FormatError


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("Initial resource[0]", "no `Initial resource` lines"),
        ("Debug buffer info", "no `buffer_id,.*` lines"),
        ("Estimated elapsed time without", "no `Post-Processing` lines"),
        ("Estimated elapsed time with async", "no `Estimated elapsed time with async copies` lines"),
    ],
)
def test_truncated_log(folder: Path, marker: str, message: str):
    truncate(folder / "log.txt", marker)
    with pytest.raises(FormatError, match=message):
        assembled(folder)


def test_the_last_run_in_a_log_counts(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    start = text.index("I0101 00:00:00.000000 1 memory_space_assignment.cc:362]")
    twice = text[: text.index("Post-Processing")] + "\n" + text[start:]
    assert parse_log(twice.splitlines()) == parse_log(text.splitlines())


def test_allocation_with_history():
    allocation = parse_allocation(
        "Copy Allocation in alt (off: 4096, size: 2048), start_time:5, end_time:9, copy_start_after_time: 4, "
        "copy_done_before_time: 7, uses: fusion.1, operand 0,call.2, operand 3 {1,0}, "
        "existing sync_mem_op: slice.4, existing copy_start: copy-start.2, existing copy_done: copy-done.2, "
        "from Copy Allocation in def, start_time:2, end_time:4, copy_start_after_time: 1, copy_done_before_time: 3, "
        "uses: none, existing sync_mem_op: none, from PinnedAllocation in alt (off: 0, size: 2048) "
        "defined at fusion {2}, start_time:1, end_time:3, uses: none"
    )
    assert allocation is not None
    assert allocation.position == ("fusion", (2,))
    assert (allocation.fast, allocation.source_fast, allocation.offset) == (True, False, 4096)
    assert (allocation.start, allocation.end, allocation.copy_start, allocation.copy_done) == (5, 9, 4, 7)
    assert allocation.uses == (("fusion.1", 0, ()), ("call.2", 3, (1, 0)))
    assert (allocation.start_name, allocation.replaces) == ("copy-start.2", "slice.4")
    assert parse_allocation("something else") is None


def test_bytes_that_the_compiler_does_not_know_are_none(folder: Path):
    text = (folder / "log.txt").read_text(encoding="utf-8")
    known = re.search(r"total-bytes-accessed,computation=[^,]+,instruction=([^,]+),[^>]*> is ([1-9]\S*)", text)
    assert known is not None
    unknown = text.replace(known[0], known[0].removesuffix(known[2]) + "-1")
    assert parse_log(text.splitlines()).total_bytes[known[1]] == float(known[2])
    assert parse_log(unknown.splitlines()).total_bytes[known[1]] == 0.0


_TURNS = """
algorithm.cc:5033] Processing buffer: <7 fusion.1{}>
algorithm.cc:9138] Finding allocation for value = <7 fusion.1> [1, 9] use = slice.1, operand 0. Size = 4000, def pos
algorithm.cc:11166] FindBestChunkCandidates earliest use = 9, offsets = { 512 }
algorithm.cc:9852] Keep the buffer in alternate memory. Offset = 512, prefetch picker = Async copy elapsed (s) = 1.5e-05
algorithm.cc:6127] AllocateSegment result: FailOutOfMemory
algorithm.cc:10702] Trying prefetch picker = Async copy elapsed (s) = 1.6e-05, interval = (1, 9)
algorithm.cc:11166] FindBestChunkCandidates earliest use = 9, offsets = { 4096, 1024, 2048 }
algorithm.cc:11166] FindBestChunkCandidates earliest use = 9, offsets = { 1024 }
algorithm.cc:6127] AllocateSegment result: Success
algorithm.cc:5033] Processing buffer: <8 call.2{1}>
algorithm.cc:9138] Finding allocation for value = <8 call.2{1}> [1, 9] use = while.3, operand 0 {1}. Size = 640, def pos
algorithm.cc:11166] FindBestChunkCandidates earliest use = 9, offsets = { 0 }
algorithm.cc:6127] AllocateSegment result: Success
algorithm.cc:5033] Processing buffer: <7 fusion.1{}>
algorithm.cc:9138] Finding allocation for position = fusion.1, value = <7 fusion.1> [1, 9] Size = 640, def pos
algorithm.cc:10702] Trying prefetch picker = Async copy elapsed (s) = 1.6e-05, interval = (1, 9)
algorithm.cc:11166] FindBestChunkCandidates earliest use = 9, offsets = { 0 }
algorithm.cc:6127] AllocateSegment result: Success
"""


def test_turns_and_the_slices_that_were_tried():
    log = parse_log(f"I0101 00:00:00.000000 1 {line}" for line in _TURNS.strip().splitlines())
    fusion, call = ("fusion.1", ()), ("call.2", (1,))
    assert log.order == [fusion, call, fusion]
    # Of a prefetch, lowest bytes first: 1024 to 2048, to 4096, to 1024 + 4000. What is kept was not prefetched.
    assert log.slices == {fusion: [1024, 2048, 928]}
    assert log.typical_copy_s == 1.5e-05
    assert log.sought == {(fusion, ("slice.1", 0, ())): 4000, (call, ("while.3", 0, (1,))): 640}


def test_a_log_without_copies_has_no_typical_one():
    log = parse_log([])
    assert (log.order, log.slices, log.typical_copy_s) == ([], {}, None)


def test_versions_that_list_no_options_say_how_much_fast_memory_there_is(folder: Path):
    lines = (folder / "log.txt").read_text(encoding="utf-8").splitlines()
    known = parse_log(lines)
    begin = "I0101 00:00:00.000000 1 memory_space_assignment"
    size = known.options["max_size_in_bytes"]
    listed = next(number for number, line in enumerate(lines) if line.startswith(f"{begin}.cc:"))
    told = [f"{begin}.cc:325] Module before memory space assignment: "]
    place = "I0101 00:00:00.000000 1 algorithm.cc:2020] Assigning buffers to alternate memory. Max heap size = "
    told += [f"{place}{size}"]
    without = [line for line in lines if not re.match(rf"{begin}\.cc:\d+\] (\w+: -?\d+$|memory_space)", line)]
    unsaid = [line for line in without if "Max heap size" not in line]
    assert "max_size_in_bytes" not in parse_log(unsaid).options
    older = [*unsaid[:listed], *told, *unsaid[listed:]]
    assert parse_log(older).options == {"max_size_in_bytes": size}
    (folder / "log.txt").write_text("\n".join(older), encoding="utf-8")
    cut_down(folder, dumps=True, costs=True)
    assert assembled(folder).target.fast_bytes == size
    # A second run in the same log.
    again = parse_log([*older, *told, *older[listed + 2 :]])
    assert again.options == {"max_size_in_bytes": size}
    assert again.allocations == known.allocations
