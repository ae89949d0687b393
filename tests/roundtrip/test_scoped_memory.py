"""Sizes of scoped memory: which are tried, which is kept, and what ends the search."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from compiler_cases import real_python

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.compiler_flags import CompilerOptions
from mallocmuzero.env.program.program import Program
from mallocmuzero.env.workloads import MODELS_PARENT, workload
from mallocmuzero.roundtrip import scoped_memory as module
from mallocmuzero.roundtrip.scoped_memory import (
    SCAVENGING,
    SCOPED_MEMORY,
    Sizes,
    check_scoped_memory,
    compiler_of,
    find_size,
)

MIB = 1024


class Compiler:
    """Compiles in no time: each size of scoped memory, in MiB, has some seconds under `cycles`.

    With scavenging they are multiplied by `scavenging`.
    """

    def __init__(
        self,
        cycles_s: dict[float, float | None],
        default: float = 16,
        takes_s: float = 0.0,
        scavenging: float = 1.0,
    ) -> None:
        self.cycles_s, self.default, self.takes_s, self.scavenging = cycles_s, default, takes_s, scavenging
        self.scavenged = list[float]()
        self.now, self.asked = 0.0, list[float]()
        self.fast_bytes = int((128 - default) * 2**20)

    def __call__(self, options: CompilerOptions, seconds: float) -> Program:
        mib = int(options.get(SCOPED_MEMORY, self.default * MIB)) / MIB
        (self.scavenged if SCAVENGING in options else self.asked).append(mib)
        self.now += self.takes_s
        if mib not in self.cycles_s:
            raise UserError("too large")
        target, cycles_s = SimpleNamespace(fast_bytes=self.fast_bytes), self.cycles_s[mib]
        if cycles_s is not None and SCAVENGING in options:
            cycles_s *= self.scavenging
        return cast(Program, SimpleNamespace(production=object(), cycles_s=cycles_s, target=target))

    def find(self, target: str = "v5e", until: float = 1e9) -> tuple[Sizes, list[str]]:
        said: list[str] = []
        return find_size(self, target, until, said.append, lambda: self.now), said


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: Callable[..., Any] = lambda program, mapping: {"msa": 1.0, "cycles": program.cycles_s}  # noqa: E731
    monkeypatch.setattr(module, "latencies", told)


def test_the_search_goes_on_beside_the_best() -> None:
    compiler = Compiler({8: 5.0, 12: 4.0, 16: 3.0, 20: 2.0, 24: 2.5, 32: 9.0})
    sizes, said = compiler.find()
    assert compiler.asked == [16, 24, 12, 32, 20]
    assert sizes.options == {SCOPED_MEMORY: str(20 * MIB)}
    assert [size.kib // MIB for size in (sizes.default, *sizes.tried)] == [*compiler.asked, 20]
    assert compiler.scavenged == [20], "the best size once more"
    assert len(said) == len(compiler.asked) + 1
    compiler = Compiler({16: 3.0, 24: 1.0, 48: 2.0, 32: 2.0, 40: 1.5}, default=32)
    compiler.fast_bytes -= 65536  # as the compiler of v6e leaves out
    assert compiler.find("v6e")[0].options == {SCOPED_MEMORY: str(24 * MIB)}
    assert compiler.asked == [32, 48, 24, 16], "40 MiB are not beside the best"


def test_scavenging_is_kept_where_it_gains() -> None:
    compiler = Compiler({12: 4.0, 16: 3.0, 20: 4.0, 24: 5.0}, scavenging=0.9)
    sizes, said = compiler.find()
    assert sizes.options == {SCAVENGING: "true"}
    assert said[-1] == "scoped memory: 16 MiB with scavenging: 1,000,000.00 us (msa), 2,700,000.00 us (cycles)"
    compiler = Compiler({12: 2.0, 16: 3.0, 8: 4.0, 24: 5.0}, scavenging=0.9)
    assert compiler.find()[0].options == {SCOPED_MEMORY: str(12 * MIB), SCAVENGING: "true"}
    compiler = Compiler({24: 2.0, 32: 3.0, 16: 4.0, 48: 5.0}, default=32, scavenging=0.9)
    assert compiler.find("tpu7x")[0].options == {SCOPED_MEMORY: str(24 * MIB)}
    assert compiler.scavenged == [], "it is the default there"


def test_the_default_stays_unless_another_is_clearly_better() -> None:
    compiler = Compiler({12: 3.0, 16: 3.0, 20: 2.9999, 24: 3.0})
    sizes, _ = compiler.find()
    assert sizes.best is sizes.default
    assert sizes.options == {}
    assert 20 in compiler.asked


def test_a_size_that_cannot_be_compiled_or_priced_is_passed_over() -> None:
    sizes, said = Compiler({12: 2.0, 16: 3.0, 8: None}).find()
    assert sizes.options == {SCOPED_MEMORY: str(12 * MIB)}
    assert {size.kib // MIB: size.error for size in sizes.tried if not size.scavenges} == {
        24: "too large",
        12: None,
        8: "the code generator tells no cycles",
    }
    assert any("24 MiB: too large" in line for line in said)


def test_without_cycles_of_the_default_nothing_is_tried() -> None:
    compiler = Compiler({16: None})
    assert compiler.find()[0].options == {}
    assert compiler.asked == [16]


def test_a_function_that_cannot_be_compiled_at_all_is_an_error() -> None:
    with pytest.raises(UserError, match="too large"):
        Compiler({}).find()


def test_no_size_is_begun_that_would_end_too_late() -> None:
    compiler = Compiler({8: 1.0, 12: 2.0, 16: 3.0, 24: 4.0}, takes_s=10.0)
    sizes, said = compiler.find(until=45.0)
    assert compiler.asked == [16, 24, 12]
    assert sizes.options == {SCOPED_MEMORY: str(12 * MIB)}
    assert said[-2:] == ["no time was left to try 8 MiB", "no time was left to try 12 MiB with scavenging"]


def test_on_v4_no_larger_size_changes_anything() -> None:
    compiler = Compiler({8: 3.5, 12: 4.0, 16: 3.0})
    compiler.find("v4")
    assert compiler.asked == [16, 12]


def test_what_sizes_cannot_be_compared_by_is_refused() -> None:
    check_scoped_memory(False, "msa", {SCOPED_MEMORY: "1"})
    check_scoped_memory(True, "robust", {"xla_other": "1"})
    with pytest.raises(UserError, match="--objective robust or cycles"):
        check_scoped_memory(True, "msa", {})
    for name in (SCOPED_MEMORY, SCAVENGING):
        with pytest.raises(UserError, match=f"--option {name}"):
            check_scoped_memory(True, "cycles", {name: "1"})


@pytest.mark.parametrize("target", ["v4", "v6e", "tpu7x"])
def test_the_real_compilers_own_size_is_known(target: str) -> None:
    python = real_python()
    entry = workload("tiny")
    compile_with = compiler_of(entry.reference, target, {}, python=python, working_folder=MODELS_PARENT)
    default = compile_with({}, 600.0)
    own = 1024 * module._default_mib(target, default)
    assert compile_with({SCOPED_MEMORY: str(own)}, 600.0).sha256 == default.sha256
    if target == "v6e":
        half = compile_with({SCOPED_MEMORY: str(own // 2)}, 600.0)
        assert half.target.fast_bytes == default.target.fast_bytes + 512 * own
