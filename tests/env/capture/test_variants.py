"""Compilations under further flags: variants and cycles, from the compiler and from the archive."""

from pathlib import Path

from compiler_cases import recorded, requests

from mallocmuzero.env.capture.capture import capture
from mallocmuzero.env.capture.compilations import Archive
from mallocmuzero.env.capture.compiler import ASSIGNMENT, CODE, LOWERING
from mallocmuzero.env.physics.simulator import simulate
from mallocmuzero.env.program import compiler_flags
from mallocmuzero.env.program.program_file import read_program


def test_variants_and_cycles(tmp_path: Path):
    said: list[str] = []
    output = tmp_path / "small.json.gz"
    # One variant crashes the compiler, one is refused, one schedules another instruction.
    change = f"""
if list(options) == [{compiler_flags.CROSS_PROGRAM!r}]:
    print("F0101 Check failed: oops", file=sys.stderr, flush=True)
    import os; os.kill(os.getpid(), 11)
if len(options) == 3:
    error = "the TPU compiler refused: XlaRuntimeError: no"
if {compiler_flags.LOOP_OPTIMISER!r} in options:
    log = made / "log.txt"
    log.write_text(log.read_text().replace("Initial resource[2]", "Initial resource[999]"))
"""
    archive = Archive(tmp_path / "archive", {"function": "f"})
    python = recorded(tmp_path, change)
    program = capture("models:f", "v5e", output, python=python, passes=3, archive=archive, progress=said.append)
    assert program.variants[0].options == {}
    assert program.production is not None
    latency_s = program.variants[0].latency_s
    assert latency_s["msa"] == simulate(program, program.target, program.production).latency_s
    reasons = {str(left["options"]): left["reason"] for left in program.compiler["variants_left_out"]}
    assert len(reasons) == 2
    assert any("killed by SIGSEGV (F0101 Check failed: oops)" in reason for reason in reasons.values())
    assert any("the TPU compiler refused" in reason for reason in reasons.values())
    assert len(program.variants) + len(reasons) == len(compiler_flags.flag_grid())
    for variant in program.variants[1:]:
        changed = compiler_flags.LOOP_OPTIMISER in variant.options
        assert variant.inexpressible == ({"another schedule": 1} if changed else {})
        assert variant.latency_s == ({"msa": None, "cycles": None} if changed else latency_s)
        assert variant.mapping is None  # none is better than the default
    asked = requests(tmp_path)
    assert [request["through"] for request in asked] == [CODE, LOWERING, CODE, *[ASSIGNMENT] * 7, CODE, CODE]
    assert [request["dump"] for request in asked] == [True] + [False] * (len(asked) - 1)
    again = read_program(output)
    assert [v.options for v in again.variants] == [v.options for v in program.variants]
    # A second time, only what failed is asked for again.
    before = output.read_bytes()
    capture("models:f", "v5e", output, python=python, passes=3, archive=archive, progress=said.append)
    assert output.read_bytes() == before
    assert len(requests(tmp_path)) - len(asked) == 2
