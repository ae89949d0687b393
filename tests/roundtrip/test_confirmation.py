"""Confirmation of candidates by the compiler: the best is kept, a failure is told, and the default stays intact."""

import errno
import json
import re
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from compiler_cases import real_python, recorded
from launch_cases import call
from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.errors import UserError
from mallocmuzero.env.physics.objective import make_judge
from mallocmuzero.env.program.compiler_flags import BANDWIDTH, CROSS_PROGRAM
from mallocmuzero.env.program.mapping import Mapping
from mallocmuzero.env.program.mapping_file import write_mapping
from mallocmuzero.env.program.program import Program, all_hbm
from mallocmuzero.env.program.program_file import read_program
from mallocmuzero.env.workloads import load
from mallocmuzero.launch.confirmation_report import report, verdict
from mallocmuzero.roundtrip import compile as imposition
from mallocmuzero.roundtrip.compile import Imposed, imposer
from mallocmuzero.roundtrip.confirm import Candidate, Confirmation, confirm
from mallocmuzero.roundtrip.source import find_source, program_path
from mallocmuzero.solvers.xla.decoder import Decoder

VERSIONS = "compiled with jax 1 and libtpu 2; the program was captured with jax 1 and libtpu 2"


class Stub:
    """A compiler that makes known mappings of options; by whether it goes to the end."""

    def __init__(self, made: Callable[[str, bool], Mapping | str]) -> None:
        self.made, self.asked = made, []  # type: ignore[var-annotated]

    def impose(
        self, program: Program, options: dict[str, str], quick: bool = False, time_limit_s: float | None = None
    ) -> Imposed:
        name = options.get("name", "default")
        self.asked.append((name, quick))
        found = self.made(name, quick)
        if isinstance(found, str):
            raise UserError(found)
        return Imposed(program, found, 1.0, 0, {}, 1.0, {})


def judged(
    program: Program, names: Sequence[str], made: Callable[[str, bool], Mapping | str], **settings: Any
) -> tuple[Confirmation, list[tuple[str, bool]], list[str]]:
    said: list[str] = []
    stub = Stub(made)
    candidates = [Candidate(name, {"name": name}) for name in names]
    found = confirm(program, None, candidates, stub, progress=said.append, **settings)  # type: ignore[arg-type]
    return found, stub.asked, said


def mappings(program: Program) -> dict[str, Mapping]:
    """XLA's own, a better one, one a little better, and the worst."""
    assert program.production is not None
    judge = make_judge(program)
    decoder = Decoder(program)
    reverse = decoder.decode(priority=-1.0 * program.size.argsort())
    orders = [decoder.decode(priority=(program.size * 0 + 1).cumsum() * factor % 7) for factor in (1, 2, 3, 4, 5)]
    found = sorted([*orders, reverse], key=judge.judge)
    better = [mapping for mapping in found if judge.judge(mapping) < judge.judge(program.production)]
    assert judge.judge(better[0]) < judge.judge(better[-1]), "the case needs two that differ"
    return {"default": program.production, "best": better[0], "good": better[-1], "worst": all_hbm(program)}


def test_the_best_confirmed_is_kept_and_compiled_to_the_end() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, asked, _ = judged(tiny, ["good", "worst", "best"], lambda name, quick: made[name])
    assert found.options == {"name": "best"}
    assert asked == [("default", True), ("good", True), ("worst", True), ("best", True), ("best", False)]
    found, asked, _ = judged(tiny, ["good", "best"], lambda name, quick: made[name], quick=True)
    assert found.options == {"name": "best"}
    assert ("best", False) not in asked


def test_what_turns_out_worse_at_the_end_makes_room_for_the_next() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, asked, _ = judged(
        tiny, ["good", "best"], lambda name, quick: made["worst" if name == "best" and not quick else name]
    )
    assert found.options == {"name": "good"}
    assert asked[-2:] == [("best", False), ("good", False)]
    found, _, said = judged(tiny, ["best"], lambda name, quick: made[name] if quick else "the compiler crashed")
    assert (found.options, found.mapping) == ({}, found.default)
    assert said == ["best is left out: the compiler crashed", "no options are better than XLA's default, which stays"]


def test_never_worse_than_the_default() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, _, said = judged(tiny, ["worst", "default"], lambda name, quick: made[name])
    assert (found.kept, found.options) == (None, {})
    assert said == ["no options are better than XLA's default, which stays"]
    result = report(found, made["best"])
    assert result["confirmed_us"] == result["default_us"]
    assert [tried["kept"] for tried in result["candidates"]] == [False, False]
    # The compiler of today may do better by itself than that of the capture; then that is what counts.
    found, _, said = judged(tiny, ["good"], lambda name, quick: made["best" if name == "default" else name])
    assert found.kept is None
    assert "another mapping than when the program was captured" in said[0]


def test_failures_are_told_and_the_others_judged() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    found, _, said = judged(
        tiny, ["refused", "good"], lambda name, quick: "was refused" if name == "refused" else made[name]
    )
    assert found.options == {"name": "good"}
    assert said == ["refused is left out: was refused"]
    tried = report(found, made["best"])["candidates"]
    assert [entry["error"] for entry in tried] == ["was refused", None]
    with pytest.raises(UserError, match="not even the default"):
        judged(tiny, ["good"], lambda name, quick: "not even the default")


def test_no_time_is_left() -> None:
    tiny = load("tiny")
    made = mappings(tiny)
    left = iter([10.0, 10.0, 7.0, 2.0, 0.0, 0.0, 0.0])  # one takes 3 s
    found, asked, said = judged(tiny, ["good", "best"], lambda name, quick: made[name], time_left_s=lambda: next(left))
    assert asked == [("default", True), ("good", True)]
    assert found.options == {"name": "good"}
    assert said[0] == "no time for best"
    assert "no time to compile good to the end" in said[1]


def test_no_gain_is_told_without_the_other_models_word() -> None:
    before = {"msa": 100.0, "cycles": 100.0}
    assert verdict(before, {"msa": 90.0, "cycles": 110.0}) == "msa calls it 10.00% better; cycles calls it 10.00% WORSE"
    assert verdict(before, {"msa": 100.0, "cycles": None}) == (
        "msa sees no change; cycles cannot tell: the program has no cycle table"
    )


# ---- the compiler's process -----------------------------------------------------------------------------------------


def failing(folder: Path, change: str, options: dict[str, str], time_limit_s: float = 60.0) -> UserError:
    """Captures with a compiler in order, and returns what comes of options with one that is not."""
    output = folder / "small.json.gz"
    capture("models:my_step", "v5e", output, python=recorded(folder), progress=lambda line: None)
    program = read_program(output)
    python = recorded(folder, change)
    source = find_source(program, output)
    with imposer(source, python, time_limit_s=time_limit_s, progress=lambda line: None) as compiler:
        compiler.impose(program, {})
        with pytest.raises(UserError) as raised:
            compiler.impose(program, options)
        compiler.impose(program, {})  # the next one is not affected
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "print('F0101 x.cc:1] Check failed: oops', file=sys.stderr, flush=True); os.kill(os.getpid(), 11)",
            r"models:my_step: the compilation was killed by SIGSEGV \(F0101 x.cc:1\] Check failed: oops\)",
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
    with imposer(find_source(program, output), python, progress=lambda line: None) as compiler:
        monkeypatch.setattr(imposition, "cut_down", full)
        with pytest.raises(UserError, match=r"No space left on device\); free some space, or set TMPDIR"):
            compiler.impose(program, {})
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
    found: list[Imposed] = []

    def compile_once(options: dict[str, str]) -> None:
        with imposer(source, python, progress=lambda line: None) as compiler:
            found.append(compiler.impose(tiny, options, quick=True))

    jobs = [lambda options=options: compile_once(options) for options in ({}, {BANDWIDTH: "0.5"})]
    assert at_once(jobs) == []  # type: ignore[arg-type]
    assert len(found) == 2
