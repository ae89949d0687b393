"""The package: which extra brings what, what a wheel carries, and what a command says that lacks a library."""

import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Stands before a command as if these libraries were not installed.
WITHOUT = """
import sys


class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Absent())
from mallocmuzero.launch.cli import main
sys.exit(main({arguments!r}))
"""
LEARNER = ("jax", "jaxlib", "flax", "optax", "orbax", "mctx", "chex", "tensorboardX", "tensorstore", "ml_dtypes")


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def lines(setup: configparser.ConfigParser, extra: str) -> set[str]:
    text = setup["options.extras_require"][extra]
    return {line for line in text.splitlines() if line and not line.startswith("#")}


def test_larger_extras_hold_the_smaller_ones(setup: configparser.ConfigParser) -> None:
    assert lines(setup, "train") < lines(setup, "cluster") < lines(setup, "dev")
    assert lines(setup, "gym") < lines(setup, "dev")


def test_the_minimal_install_has_no_learner(setup: configparser.ConfigParser) -> None:
    text = setup["options"]["install_requires"]
    for heavy in ("jax", "flax", "tensorflow", "ray", "orbax", "mctx"):
        assert heavy not in text
        assert any(heavy in line for line in lines(setup, "cluster"))


def test_every_data_file_of_the_package_is_carried(setup: configparser.ConfigParser) -> None:
    for package, patterns in setup["options.package_data"].items():
        folder = ROOT.joinpath(*package.split(".")[1:])
        for pattern in patterns.replace("\n", "").split(","):
            assert list(folder.glob(pattern.strip())), f"{package}: nothing is called {pattern}"
    page = ROOT / "launch" / "report" / "page"
    assert {path.suffix for path in page.iterdir()} == {".html", ".css", ".js"}


def call_without(absent: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(absent=set(absent), arguments=list(arguments))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "absent", "extra"),
    [
        (("train", "--workload", "tiny", "--run-dir", "{tmp}/run"), LEARNER, "train"),
        (("solve", "tiny", "--solver", "egrl", "-o", "{tmp}/m.json.gz"), LEARNER, "train"),
        (("diagnose", "{tmp}/none", "--workload", "tiny"), LEARNER, "train"),
        (("evaluate", "{tmp}", "--workload", "tiny"), LEARNER, "train"),
    ],
)
def test_a_command_names_the_extra_that_it_needs(
    tmp_path: Path, arguments: tuple[str, ...], absent: tuple[str, ...], extra: str
) -> None:
    done = call_without(absent, *(argument.format(tmp=tmp_path) for argument in arguments))
    assert done.returncode == 2, done.stderr
    assert f"is missing; `pip install 'mallocmuzero[{extra}]'` brings it" in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_the_learner_programs_are_solved_and_reported(tmp_path: Path) -> None:
    mapping, page = tmp_path / "m.json.gz", tmp_path / "report.html"
    done = call_without(LEARNER, "solve", "tiny", "--evaluations", "50", "-o", str(mapping))
    assert done.returncode == 0, done.stderr
    done = call_without(LEARNER, "report", str(mapping), "-o", str(page))
    assert done.returncode == 0, done.stderr
    assert page.stat().st_size > 10_000


def test_a_module_that_no_extra_brings_is_a_fault() -> None:
    done = call_without(("msgpack", "rich"), "status", ".")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
