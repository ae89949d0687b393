"""`jax.lax.cond` and `jax.lax.switch`: XLA's mappings read back, verify, play, and the compiler's figures come out.

For v5e: three experts that a switch chooses from, three times; a training step that scales its loss and skips what is
not finite; a layer that a scan may drop; and `optax.apply_if_finite` around Adam, of which only the program is kept.
"""

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import numpy as np
import pytest
from compiler_cases import BEFORE, assembled, unpacked
from matplotlib.figure import Figure
from programs import make_mapping, make_program

from mallocmuzero.env.bounds.bound import bound
from mallocmuzero.env.capture.conditionals import branches_of
from mallocmuzero.env.capture.hlo import read_module
from mallocmuzero.env.capture.printed_estimate import estimates_off
from mallocmuzero.env.errors import FormatError, UserError
from mallocmuzero.env.game.game import MallocGame
from mallocmuzero.env.game.replay_mapping import follow
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.program.program_file import read_program, write_program
from mallocmuzero.env.verifier.verify import verify
from mallocmuzero.env.viewer.memory_map import draw_memory
from mallocmuzero.env.viewer.timed_mapping import TimedMapping
from mallocmuzero.solvers.xla.decoder import Decoder

FOLDER = Path(__file__).parent / "data" / "conditionals"
COMPILED = ("experts", "loss-scaling", "scanned")
NAMES = (*COMPILED, "apply-if-finite")


@cache
def load(name: str) -> Program:
    if name not in COMPILED:
        return read_program(FOLDER / f"{name}-v5e.json.gz")
    with TemporaryDirectory() as folder:
        return assembled(unpacked(FOLDER / f"{name}-v5e.tar.xz", Path(folder)))


def conditionals(program: Program) -> list[int]:
    assert program.conditional is not None
    return np.flatnonzero(program.conditional).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_xlas_mapping_reads_back_and_its_estimates_come_out(name: str):
    program = load(name)
    assert program.production is not None
    assert program.compiler["inexpressible"] == {}
    assert verify(program, program.target, program.production) == []
    off = estimates_off(program, program.production)
    assert off == pytest.approx({"without_copies": 0.0, "with_copies": 0.0}, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_xlas_mapping_is_a_line_of_play(name: str):
    """But where XLA takes the place of a result meanwhile: the game holds it from the first branch to the last."""
    program = load(name)
    assert program.production is not None
    game = MallocGame(program, objective="msa", trivial_share=0.0)
    line = follow(game, program.production)
    assert np.array_equal(line.wanted, program.production.access_fast)
    assert verify(program, game.target, line.mapping) == []
    followed_s, line_s = line.latency_s["msa"]
    assert line_s <= followed_s * (1.2 if name == "apply-if-finite" else 1.03)


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_played_verifies(name: str):
    program, rng = load(name), np.random.default_rng(1)
    for share in (1.0, 0.2, 0.05):
        fast_bytes = int(share * program.target.fast_bytes) // program.target.alignment * program.target.alignment
        target = program.target.__class__(**{**vars(program.target), "fast_bytes": fast_bytes})
        for _ in range(20):
            game = MallocGame(program, target)
            liking = rng.dirichlet([1.0, 1.0, 1.0]) + 1e-3
            while not game.done:
                legal = np.flatnonzero(game.legal)
                game.step(int(rng.choice(legal, p=liking[legal] / liking[legal].sum())))
            assert verify(program, target, game.mapping()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_conditional_is_its_branches(name: str):
    program = load(name)
    for loop in conditionals(program):
        branches = np.flatnonzero(program.loop_parent == loop)
        assert len(branches) == (3 if name == "experts" else 2)
        assert program.loop_trips[[loop, *branches]].tolist() == [1] * (1 + len(branches))
        # Each begins with its parameter, which touches nothing and takes no time.
        for t in program.loop_first[branches].tolist():
            assert program.opcodes[t] == "parameter"
            assert program.access_start[t] == program.access_start[t + 1]
            assert program.compute_s[t] == 0
    assert len(conditionals(program)) == (3 if name == "experts" else 1)


def test_what_branches_return_is_one_buffer():
    """Each expert writes it, and the sum after the switch reads it."""
    program = load("experts")
    first = conditionals(program)[0]
    writes = [
        {int(b) for b, k in zip(program.access_buffer[low:high], program.access_kind[low:high], strict=True) if k == 1}
        for branch in np.flatnonzero(program.loop_parent == first)
        for low, high in [program.access_start[[program.loop_first[branch], program.loop_last[branch] + 1]]]
    ]
    (returned,) = set.intersection(*writes)
    after = program.access_start[program.loop_last[first] + 1]
    assert returned in program.access_buffer[after:]


def test_a_conditional_in_a_loop_runs_as_often():
    program = load("scanned")
    (loop,) = conditionals(program)
    assert program.loop_trips[program.loop_parent[loop]] == 6
    assert set(program.weight[program.loop_first[loop] : program.loop_last[loop] + 1]) == {6.0}


def test_xla_takes_the_place_of_a_result_while_other_branches_run():
    """Held from the first branch to the last, it would overlap what XLA puts there meanwhile."""
    program = load("apply-if-finite")
    assert program.production is not None
    (loop,) = conditionals(program)
    first, last = int(program.loop_first[loop]), int(program.loop_last[loop])
    rows = program.production.residencies.tolist()

    def held_throughout(buffer: int, offset: int, low: int, high: int) -> bool:
        apart = [r for r in rows if r[0] != buffer and r[1] <= last and first <= r[2]]
        return not any(r[3] + r[4] < offset + high and offset + low < r[3] + r[5] for r in apart)

    returned = [row for row in rows if first < row[1] and row[2] == last]
    assert {held_throughout(row[0], *row[3:]) for row in returned} == {True, False}


def test_a_file_keeps_conditionals(tmp_path: Path):
    program = load("loss-scaling")
    write_program(program, tmp_path / "kept.json.gz")
    again = read_program(tmp_path / "kept.json.gz")
    assert again.conditional is not None
    assert again.conditional.tolist() == [True, False, False]
    assert again.sha256 == program.sha256


def test_a_file_with_instructions_between_branches_is_refused(tmp_path: Path):
    program = load("loss-scaling")
    path = tmp_path / "kept.json.gz"
    for conditional in ([False, True, False], [True, True, False]):
        write_program(replace(program, conditional=np.array(conditional)), path)
        with pytest.raises(FormatError, match="instructions outside its branches"):
            read_program(path)
    twice = np.where(np.arange(3) == 1, 2, program.loop_trips)
    write_program(replace(program, loop_trips=twice), path)
    with pytest.raises(FormatError, match="is not 1 for a conditional and its branches"):
        read_program(path)


BRANCHES = make_program(
    [
        ("a", 1.0, ["x"], ["kept"]),
        ("parameter.1", 0.0, [], []),
        ("b", 1.0, ["x"], ["y"]),
        ("parameter.2", 0.0, [], []),
        ("c", 1.0, ["kept"], ["y"]),
        ("d", 1.0, ["y"], ["out"]),
    ],
    {"x": {"size": 16, "input": True}, "kept": 16, "y": 16, "out": {"size": 8, "output": True}},
    loops=[(1, 4, 1), (1, 2, 1), (3, 4, 1)],
    conditional=np.array([True, False, False]),
)
KEPT = [("a", "kept"), ("c", "kept")]
BOTH = [("b", "y"), ("c", "y"), ("d", "y")]


def broken(
    fast: list[tuple[str, str]], rows: list[tuple[str, int, int, int]], copies: list[dict[str, Any]]
) -> set[str]:
    mapping = make_mapping(BRANCHES, fast, rows, copies)
    return {violation.kind.value for violation in verify(BRANCHES, BRANCHES.target, mapping)}


def test_a_result_is_in_one_place_after_all_branches():
    assert broken(BOTH, [("y", 2, 2, 0), ("y", 4, 5, 0)], []) == set()
    assert broken(BOTH, [("y", 2, 2, 8), ("y", 4, 5, 0)], []) == {"fast-content"}
    assert broken(BOTH[1:], [("y", 4, 5, 0)], []) == {"fast-content"}
    assert broken(BOTH[:2], [("y", 2, 2, 0), ("y", 4, 4, 0)], []) == {"hbm-content"}


def test_a_branch_finds_what_was_there_before_all():
    """Whatever another branch does with the place meanwhile."""
    assert broken(KEPT, [("kept", 0, 0, 0), ("kept", 3, 4, 0)], []) == set()
    other = [("y", 2, 2, 0), ("y", 4, 5, 16)]
    assert broken([*KEPT, ("b", "y")], [("kept", 0, 0, 0), ("kept", 3, 4, 0), *other[:1]], []) == {"hbm-content"}
    assert broken(KEPT, [("kept", 0, 0, 0), ("kept", 3, 4, 8)], []) == {"fast-content"}


def test_no_copy_leaves_a_branch():
    fetched = {"buffer": "x", "start": 1, "end": 2}
    assert broken([("b", "x")], [("x", 2, 2, 0)], [fetched]) == set()
    assert broken([], [("x", 2, 4, 0)], [{**fetched, "end": 4}]) == {"copy-loop"}
    assert broken([], [("x", 3, 3, 0)], [{**fetched, "start": 2, "end": 3}]) == {"copy-loop"}


def test_a_prefetch_right_before_a_conditional_spares_what_a_branch_finds():
    kept = [("kept", 0, 0, 0), ("kept", 3, 4, 0)]
    due = {"buffer": "x", "start": 0, "end": 1}
    assert broken([*KEPT, ("b", "x")], [*kept, ("x", 1, 2, 16)], [due]) == set()
    assert broken([*KEPT, ("b", "x")], [*kept, ("x", 1, 2, 8)], [due]) == {"overlap"}
    assert broken([*KEPT, ("b", "x")], [*kept, ("x", 2, 2, 8)], [{**due, "start": 1, "end": 2}]) == set()


def test_a_file_with_conditionals_fits_the_schema(tmp_path: Path):
    write_program(load("experts"), tmp_path / "p.json.gz")
    schema = json.loads((Path(__file__).parents[3] / "docs/schema/program-2.schema.json").read_text())
    jsonschema.validate(json.loads(gzip.decompress((tmp_path / "p.json.gz").read_bytes())), schema)


def test_pictures_name_conditionals():
    assert load("scanned").loop_kinds == ["loop", "conditional", "branch", "branch"]
    program = load("loss-scaling")
    assert program.production is not None
    axis = Figure().subplots()
    run = TimedMapping("production", program.production, simulate(program, program.target, program.production))
    draw_memory(axis, program, program.target, run)
    assert [text.get_text() for text in axis.texts if "conditional" in text.get_text()] == ["conditional"]


def test_a_bound_is_that_of_single_instructions():
    program = load("experts")
    found = bound(program, "msa", seconds=5)
    assert found.relaxation_s is None
    assert 0 < found.bound_s <= found.mapping_s


def test_either_way_of_writing_branches(tmp_path: Path):
    text = """HloModule m, is_scheduled=true

%yes (a: f32[8]) -> f32[8] {
  ROOT %a = f32[8]{0} parameter(0)
}

%no (b: f32[8]) -> f32[8] {
  ROOT %b = f32[8]{0} parameter(0)
}

ENTRY %main (p: pred[], x: f32[8]) -> f32[8] {
  %p = pred[] parameter(0)
  %x = f32[8]{0} parameter(1)
  ROOT %c = f32[8]{0} conditional(%p, %x, %x), BRANCHES
}
"""
    for number, words in enumerate(("true_computation=%yes, false_computation=%no", "branch_computations={%yes, %no}")):
        path = tmp_path / f"{number}.txt"
        path.write_text(text.replace("BRANCHES", words), encoding="utf-8")
        module = read_module(path)
        assert [branch.name for branch in branches_of(module.entry.root, module)] == ["yes", "no"]
    path.write_text(text.replace("BRANCHES", "branch_computations={%yes, %lost}"), encoding="utf-8")
    with pytest.raises(FormatError, match="a branch of conditional 'c' is missing"):
        branches_of(read_module(path).entry.root, read_module(path))


@pytest.mark.parametrize(
    ("opcode", "advice"),
    [
        ("call", "inline the function"),
        ("recv-done", "sends and receives"),
        ("all-reduce-start", "shard it otherwise"),
    ],
)
def test_what_is_refused_says_what_to_do(opcode: str, advice: str, folder: Path):
    text = (folder / BEFORE).read_text(encoding="utf-8")
    (folder / BEFORE).write_text(text.replace("copy(%x.1)", f"{opcode}(%x.1)"), encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"'copy.1' is a `{opcode}`, which capture does not understand yet; .*{advice}"
    ):
        assembled(folder)


@pytest.mark.parametrize(
    ("name", "least"), [("experts", 0.95), ("loss-scaling", 1.0), ("scanned", 0.97), ("apply-if-finite", 0.88)]
)
def test_xlas_algorithm_in_our_code_places_what_branches_return(name: str, least: float) -> None:
    program = load(name)
    assert program.production is not None
    decoder = Decoder(program)
    mapping = decoder.decode_roughly()
    moved = program.access_bytes * program.weight[program.access_instruction]
    alike = moved[mapping.access_fast == program.production.access_fast].sum() / moved.sum()
    assert alike >= least
    assert verify(program, program.target, decoder.repaired(mapping)) == []
