"""The worker: mistakes in the user's function, as it reports them, and what a compilation leaves."""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import pytest

from mallocmuzero.env.capture import worker
from mallocmuzero.env.capture.compilation_files import module_in, refused_in


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("no_such_module:f", "no module 'no_such_module'"),
        ("needs_more:f", "module 'needs_more' needs 'no_such_package'"),
        ("broken:f", "broken.py:1: in <module>: ZeroDivisionError: division by zero, at `1 / 0`"),
        ("fine:g", "module 'fine' has no function 'g'"),
        ("fine:raises", "fine.py:1: in raises: KeyError: 'weights'"),
        ("fine:one", "fine:one() returned int, not (function, arguments) or (function, arguments, keywords)"),
        ("fine:wrong", "fine:wrong() returned arguments of type int, not a tuple"),
        ("fine:third", "fine:third() returned keywords of type list, not a dict"),
    ],
)
def test_what_the_user_can_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], reference: str, message: str
):
    (tmp_path / "needs_more.py").write_text("import no_such_package\n", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0\n", encoding="utf-8")
    functions = "def raises(): raise KeyError('weights')\ndef one(): return 1\ndef wrong(): return len, 1\n"
    functions += "def third(): return len, (), []\n"
    (tmp_path / "fine.py").write_text(functions, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("needs_more", "broken", "fine"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SystemExit) as raised:
        worker.describe(reference)
    assert raised.value.code == worker.USER_ERROR
    assert message in capsys.readouterr().out


def test_arguments_are_what_they_are_in_a_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """
import jax, jax.numpy as jnp
array = jax.ShapeDtypeStruct((4, 4), jnp.bfloat16)

def numbers():
    return (lambda w, rate: w - rate * w), (array, 1e-3)

def static():
    return jax.jit(lambda w, times, mode: w * times if mode == "more" else w, static_argnums=(1, 2)), (array, 3, "more")

def keywords():
    return (lambda w, *, x, rate: w @ x * rate), (array,), {"x": array, "rate": 2.0}
"""
    (tmp_path / "called.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "called", raising=False)
    for name, result in (("numbers", "bfloat16"), ("static", "bfloat16"), ("keywords", "bfloat16")):
        lowered = worker.lower(f"called:{name}", jax.devices("cpu"))
        assert str(lowered.out_info.dtype) == result, name
    assert (
        "f32" in worker.lower("called:numbers", jax.devices("cpu")).as_text().splitlines()[1]
    )  # the rate, weakly typed


class Lowered:
    """Stands for what `jax.jit(...).lower` returns. It dumps as the compiler does, and hands its module over or not."""

    def __init__(self, error: str | None, dumps: tuple[str, ...]) -> None:
        self.error, self.dumps = error, dumps

    def compile(self, compiler_options: dict[str, Any]) -> "Lowered":
        folder = Path(compiler_options["xla_dump_to"])
        (folder / "module_0000.jit_f").mkdir()
        for name in self.dumps:
            (folder / name).write_text(name, encoding="utf-8")
        if self.error is not None:
            raise RuntimeError(self.error)
        return self

    def as_text(self) -> str:
        return "handed over"


@pytest.mark.parametrize("dump", [False, True])
@pytest.mark.parametrize("error", [None, "RET_CHECK failure: async-update instruction should have 1 operands"])
def test_the_dump_serves_where_the_module_is_not_handed_over(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], error: str | None, dump: bool
) -> None:
    dumps = ("module_0000.jit_f.after_codegen.txt", "module_0029.extracted.after_codegen.txt")
    request = {"folder": str(tmp_path), "options": {}, "through": "code", "dump": dump}
    worker.compile_once(Lowered(error, dumps), request, None)
    assert json.loads(capfd.readouterr().out.partition(worker.DONE)[2])["error"] is None
    text = (tmp_path / worker.COMPILED_FILE).read_text(encoding="utf-8")
    assert text == ("handed over" if error is None else dumps[0])
    assert dump == any(path.name.startswith("module_") for path in tmp_path.iterdir())


def test_a_refusal_before_code_generation_is_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    request = {"folder": str(tmp_path), "options": {}, "through": "code", "dump": False}
    worker.compile_once(Lowered("out of memory", ("module_0029.extracted.after_codegen.txt",)), request, None)
    answer = json.loads(capfd.readouterr().out.partition(worker.DONE)[2])
    assert answer["error"] == "the TPU compiler refused: RuntimeError: out of memory"


class Older(Lowered):
    """A compiler that does not know an option."""

    def compile(self, compiler_options: dict[str, Any]) -> "Lowered":
        if worker.COMPACT in compiler_options:
            raise ValueError(f"No such compile option: '{worker.COMPACT}'")
        return super().compile(compiler_options)


def test_every_instruction_is_dumped_by_compilers_that_would_leave_some_out_and_by_those_that_never_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for kind, error, expected in (
        (Older, None, None),
        (Older, "out of memory", "out of memory"),
        (Lowered, "no", "no"),
    ):
        folder = tmp_path / f"{kind.__name__}-{error}"
        folder.mkdir()
        request = {"folder": str(folder), "options": {}, "through": "code", "dump": False}
        worker.compile_once(kind(error, ()), request, None)
        answer = json.loads(capfd.readouterr().out.partition(worker.DONE)[2])
        assert answer["error"] == (None if expected is None else f"the TPU compiler refused: RuntimeError: {expected}")


@pytest.mark.parametrize(
    ("name", "shape"), [("v5e:1x1", [1, 1, 1]), ("v4:2x2x4", [2, 2, 4]), ("v6e:4x2", [4, 2, 1]), ("v5e", [1, 1, 1])]
)
def test_a_host_may_have_all_chips(name: str, shape: list[int]) -> None:
    assert worker.host_of(name) == shape


def test_options_that_a_compiler_does_not_take_are_found(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jax = pytest.importorskip("jax")
    device = jax.devices("cpu")[0]
    good, bad = {"xla_cpu_enable_fast_math": True}, {"xla_of_another_time": "1", "xla_tpu_of_nobody": "2"}
    assert worker.refused({}, device) == worker.refused(good, device) == []
    monkeypatch.setattr(worker, "serialise", lambda lowered: b"a module")
    request = {"folder": str(tmp_path), "options": {**bad, **good}, "through": "lowering", "dump": False}
    worker.compile_once(Lowered(None, ()), request, device)
    answer = json.loads(capfd.readouterr().out.partition(worker.DONE)[2])
    assert answer["error"] is None
    assert refused_in(tmp_path) == list(bad)
    assert refused_in(tmp_path / "nothing") == []
    assert module_in(tmp_path) == b"a module"


def test_a_module_can_be_compiled_after_it_has_been_kept() -> None:
    jax = pytest.importorskip("jax")
    lowered = jax.jit(lambda x: x + 1).lower(1.0)
    assert worker.serialise(lowered) == worker.serialise(lowered)
    assert float(lowered.compile()(1.0)) == 2.0
