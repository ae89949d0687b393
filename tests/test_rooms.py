"""The rooms keep to themselves: which room may import which, and which libraries; no circles of imports.

`HOUSE` is the picture docs/house.svg as a table. `import_reader` reads the imports from source; one test loads the
rooms and looks for libraries that should have stayed away.
"""

import configparser
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import house as house_picture
import pytest
from import_reader import (
    DYNAMIC,
    Import,
    Package,
    circles,
    file_graph,
    folder_graph,
    private_imports,
    read_package,
    within,
)

import mallocmuzero

ROOT = Path(mallocmuzero.__file__).parent

JAX = ("jax", "jaxlib", "flax", "optax", "mctx", "orbax", "chex")
REVERB = ("reverb", "tensorflow")
RAY = ("ray",)


class Room(NamedTuple):
    """The places a room may import beside itself, and the libraries it may not import."""

    may_import: tuple[str, ...]
    never: tuple[str, ...]


# A file keeps the rules of the longest entry that it lies in.
HOUSE = {
    "env": Room((), (*JAX, *REVERB, *RAY)),
    "solvers": Room(("env",), (*JAX, *REVERB, *RAY)),
    "solvers/learned": Room(("env", "solvers", "learner/networks"), (*REVERB, *RAY)),
    "solvers/egrl": Room(("env", "solvers", "learner/egrl"), (*REVERB, *RAY)),
    "replay": Room(("env",), (*JAX, *REVERB, *RAY)),
    "replay/reverb/lazy_import": Room(("env",), (*JAX, *RAY)),
    "learner": Room(("env", "replay"), (*REVERB, *RAY)),
    "actors": Room(("env", "solvers", "replay/interface", "replay/segment", "learner/networks"), (*REVERB, *RAY)),
    "roundtrip": Room(("env", "solvers"), (*JAX, *REVERB, *RAY)),
    "launch": Room(("env", "solvers", "replay", "learner", "actors", "roundtrip"), (*REVERB, *RAY)),
    "launch/ray": Room(("env", "solvers", "replay", "learner", "actors", "roundtrip"), REVERB),
}
ROOMS = sorted({place.split("/")[0] for place in HOUSE})
# Any room may import the version number. No part of the package imports what is not part of it.
SHARED = ("version",)
OUTSIDE = ("benchmarks", "tests", "docs")
# These run in the interpreter that captures programs, which has JAX and not this package.
STANDALONE = ("env/capture/worker", "env/capture/module_reader", "env/capture/timer", "env/workloads/models")
# These import, or look for, modules whose names they are given: the user's own, those that declare the kernels of a
# command, and those of the names that the package offers.
BY_NAME = ("env/capture/worker", "env/capture/reference", "env/compiled/prepare", "__init__")

# Libraries that importing every module of a place does not load. Two solvers train networks, and are left out.
LEARNING_SOLVERS = ("solvers/learned", "solvers/egrl")
LOADS_NOTHING = {
    "env": (*JAX, *REVERB, *RAY),
    "solvers": (*JAX, *REVERB, *RAY),
    "replay": (*JAX, *REVERB, *RAY),
    "learner": (*REVERB, *RAY),
    "actors": (*REVERB, *RAY),
    "roundtrip": (*JAX, *REVERB, *RAY),
    "launch/api": (*JAX, *REVERB, *RAY, "numpy", "numba", "rich", "matplotlib"),
    "launch/commands": (*JAX, *REVERB, *RAY, "matplotlib"),
    "launch/ray/reservation": (*JAX, *REVERB, *RAY, "numpy", "numba"),
}


def rule_of(file: str) -> Room:
    place = max((place for place in HOUSE if within(file, place)), key=len)
    return HOUSE[place]


def forbidden_rooms(imports: list[Import]) -> list[str]:
    """Imports of another room, or of a part of it, that the importing room may not know."""
    return [
        str(found)
        for found in imports
        if found.inside
        and "/" in found.file
        and found.file.split("/")[0] != found.target.split("/")[0]
        and not any(within(found.target, place) for place in (*rule_of(found.file).may_import, *SHARED))
    ]


def forbidden_libraries(imports: list[Import]) -> list[str]:
    """Imports of libraries that the importing room does without."""
    return [
        str(found)
        for found in imports
        if not found.inside
        and "/" in found.file
        and not any(within(found.file, place) for place in STANDALONE)
        and found.target.split(".")[0] in (*rule_of(found.file).never, *OUTSIDE)
    ]


def dependent_files(imports: list[Import]) -> list[str]:
    """Imports by which a file that runs alone needs the package after all."""
    return [
        str(found)
        for found in imports
        for place in STANDALONE
        if within(found.file, place) and found.inside and not within(found.target, place)
    ]


def imports_by_variable(imports: list[Import]) -> list[str]:
    """Imports of modules whose names the source does not say."""
    return [
        str(found)
        for found in imports
        if found.target == DYNAMIC and not any(within(found.file, place) for place in BY_NAME)
    ]


@pytest.fixture(scope="module")
def house() -> Package:
    return read_package(ROOT, "mallocmuzero", ROOMS)


@pytest.fixture(scope="module")
def imports(house: Package) -> list[Import]:
    return house.imports()


def test_rooms_import_only_the_rooms_they_may(imports: list[Import]) -> None:
    assert forbidden_rooms(imports) == []


def test_rooms_import_only_the_libraries_they_may(imports: list[Import]) -> None:
    assert forbidden_libraries(imports) == []


def test_files_that_run_alone_import_nothing_else(imports: list[Import]) -> None:
    assert dependent_files(imports) == []


def test_every_import_says_what_it_imports(house: Package, imports: list[Import]) -> None:
    assert imports_by_variable(imports) == []
    assert house.unknown_modules() == []


def test_no_files_and_no_folders_import_each_other(imports: list[Import]) -> None:
    assert circles(file_graph(imports)) == []
    assert circles(folder_graph(imports)) == []


def test_no_benchmarks_import_each_other() -> None:
    imports = read_package(ROOT / "benchmarks", "benchmarks").imports()
    assert circles(file_graph(imports)) == []
    assert circles(folder_graph(imports)) == []


@pytest.mark.parametrize("folder", ["tests", "benchmarks"])
def test_tests_and_benchmarks_import_public_names(folder: str) -> None:
    assert private_imports(ROOT / folder, "mallocmuzero") == []


def test_the_package_lists_exactly_the_folders_with_code(house: Package) -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    folders = {Path(file).parent for file in house.files}
    assert all((folder / "__init__.py").as_posix() in house.files for folder in folders)
    names = sorted(".".join(["mallocmuzero", *folder.parts]) for folder in folders)
    assert setup["options"]["packages"].split() == names


def test_the_picture_shows_the_rooms_and_their_imports_as_they_are() -> None:
    drawn = (ROOT / "docs" / "house.svg").read_text(encoding="utf-8")
    assert house_picture.draw() == drawn, "run `python docs/house.py`"


@pytest.mark.parametrize("place", sorted(LOADS_NOTHING))
def test_importing_a_room_loads_nothing_heavy(house: Package, place: str) -> None:
    modules = [
        ".".join(["mallocmuzero", *Path(file).with_suffix("").parts]).removesuffix(".__init__")
        for file in sorted(house.files)
        if within(file, place) and not any(within(file, other) for other in (*STANDALONE, *LEARNING_SOLVERS))
    ]
    assert modules
    code = f"""
import importlib, sys
for name in {modules!r}:
    importlib.import_module(name)
print(*(name for name in {LOADS_NOTHING[place]!r} if name in sys.modules))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout.strip()) == (0, ""), result.stderr


# Each rule, broken.


def test_the_picture_has_a_place_for_each_room() -> None:
    assert sorted(house_picture.ROOMS) == ROOMS


def tree(folder: Path, **sources: str) -> list[Import]:
    """The imports of a small house with `sources` in it: source by path, with `__` for `/` and without `.py`."""
    return read_package(build(folder, **sources), "mallocmuzero", ROOMS).imports()


def build(folder: Path, **sources: str) -> Path:
    files = {
        "version": "VERSION = '1'",
        "env__program__program": "class Program: ...",
        "learner__update": "",
        "learner__networks__network": "",
        "learner__egrl__sac": "",
        "replay__interface": "",
        "replay__local__replay": "",
        "solvers__solve": "",
        "actors__search__search": "",
        "roundtrip__tune": "",
        "launch__console": "",
        **sources,
    }
    for name, source in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
        for parent in path.relative_to(folder).parents:
            (folder / parent / "__init__.py").touch()
    return folder


@pytest.mark.parametrize(
    "source",
    [
        "from ...learner.update import make_update",
        "from ...learner import update",
        "from ... import learner",
        "import mallocmuzero.learner.update",
        "import mallocmuzero.learner.update as update",
        "from mallocmuzero.learner import update",
        "from mallocmuzero import learner",
        "from mallocmuzero.learner.update import *",
        "def f():\n    from ...learner import update",
        "class A:\n    from ...learner import update",
        "if TYPE_CHECKING:\n    from ...learner.update import Update",
        "try:\n    from ...learner import update\nexcept ImportError:\n    pass",
        "importlib.import_module('mallocmuzero.learner.update')",
        "importlib.import_module('...learner.update', __package__)",
        "import_module(f'mallocmuzero.learner.{name}')",
        "__import__('mallocmuzero.learner')",
        "subprocess.run([sys.executable, '-m', 'mallocmuzero.learner.update'])",
    ],
)
def test_no_way_to_import_a_forbidden_room_is_missed(tmp_path: Path, source: str) -> None:
    (found,) = forbidden_rooms(tree(tmp_path, actors__self_play__actor=source))
    assert found.startswith("actors/self_play/actor.py:")
    assert "imports learner/" in found


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("env__game__rules", "from ...solvers import solve"),
        ("env__game__rules", "from ...replay.interface import Replay"),
        ("solvers__anneal", "from ..actors import search"),
        ("solvers__anneal", "from ..learner.networks import network"),
        ("solvers__learned__solver", "from ...learner.update import make_update"),
        ("solvers__learned__solver", "from ...learner.egrl import sac"),
        ("solvers__egrl__gradient", "from ...learner.networks import network"),
        ("replay__segment", "from ..solvers import solve"),
        ("replay__segment", "from ..learner.networks import network"),
        ("learner__loss", "from ..solvers import solve"),
        ("learner__loss", "from ..actors.search import search"),
        ("actors__self_play__actor", "from ...replay.local.replay import LocalReplay"),
        ("actors__self_play__actor", "from ...replay import local"),
        ("actors__self_play__actor", "from ...learner.egrl import sac"),
        ("actors__self_play__actor", "from ...roundtrip import tune"),
        ("roundtrip__tune", "from ..learner.networks import network"),
        ("roundtrip__tune", "from ..launch import console"),
    ],
)
def test_each_room_is_held_to_its_line_of_the_table(tmp_path: Path, file: str, source: str) -> None:
    assert len(forbidden_rooms(tree(tmp_path, **{file: source}))) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("solvers__learned__guided", "from ...learner.networks.network import Network"),
        ("solvers__egrl__gradient", "from ...learner.egrl import sac"),
        ("learner__loss", "from mallocmuzero.replay.interface import Replay"),
        ("actors__self_play__actor", "from ...learner.networks import network\nfrom ...solvers import solve"),
        ("actors__self_play__actor", "from ...version import VERSION"),
        ("launch__cli", "from ..learner import update\nfrom ..replay.local import replay"),
        ("env__game__rules", "from ..program.program import Program"),
    ],
)
def test_what_the_table_allows_passes(tmp_path: Path, file: str, source: str) -> None:
    imports = tree(tmp_path, **{file: source})
    assert [*forbidden_rooms(imports), *forbidden_libraries(imports)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("env__game__rules", "import jax.numpy as jnp"),
        ("env__game__rules", "def f():\n    from flax import linen"),
        ("env__game__rules", "importlib.import_module('jax.numpy')"),
        ("env__game__rules", "from benchmarks.common import job_pool"),
        ("solvers__anneal", "import optax"),
        ("solvers__learned__solver", "import ray"),
        ("replay__local__replay", "import tensorflow"),
        ("replay__reverb__client", "import reverb"),
        ("replay__reverb__client", "importlib.import_module('reverb.client')"),
        ("learner__update", "from ray import remote"),
        ("learner__update", "import reverb"),
        ("actors__self_play__actor", "import ray"),
        ("roundtrip__tune", "import jax"),
        ("launch__train__session", "import ray"),
        ("launch__ray__driver", "import tensorflow"),
    ],
)
def test_a_forbidden_library_is_found(tmp_path: Path, file: str, source: str) -> None:
    assert len(forbidden_libraries(tree(tmp_path, **{file: source}))) == 1


def test_a_file_that_runs_alone_may_import_jax_and_no_module_of_ours(tmp_path: Path) -> None:
    imports = tree(
        tmp_path,
        env__workloads__models__bert="import jax\nfrom .common import model\nfrom ...program.program import Program",
        env__workloads__models__common="",
    )
    assert forbidden_libraries(imports) == []
    assert dependent_files(imports) == ["env/workloads/models/bert.py:3 imports env/program/program.py"]


def test_a_name_that_the_source_does_not_say_is_found(tmp_path: Path) -> None:
    root = build(tmp_path, solvers__solve="import_module(name)\nNAME = 'mallocmuzero.solvers.gone'")
    package = read_package(root, "mallocmuzero", ROOMS)
    assert imports_by_variable(package.imports()) == ["solvers/solve.py:1 imports ?"]
    assert package.unknown_modules() == ["solvers/solve.py:2 names mallocmuzero.solvers.gone"]


def test_a_private_name_is_found(tmp_path: Path) -> None:
    (tmp_path / "test_rules.py").write_text(
        "from mallocmuzero.env.game.rules import COPY, _step\nfrom mallocmuzero import __version__\n", encoding="utf-8"
    )
    assert private_imports(tmp_path, "mallocmuzero") == ["test_rules.py:1 imports _step"]


def test_circles_of_files_are_found(tmp_path: Path) -> None:
    imports = tree(
        tmp_path,
        env__game__a="from .b import x",
        env__game__b="def f():\n    from . import c",
        env__game__c="if TYPE_CHECKING:\n    import mallocmuzero.env.game.a",
    )
    (circle,) = circles(file_graph(imports))
    assert sorted(set(circle.split(" > "))) == [f"env/game/{name}.py" for name in "abc"]
    assert circles(folder_graph(imports)) == []


def test_circles_of_folders_are_found_where_the_files_have_none(tmp_path: Path) -> None:
    imports = tree(
        tmp_path,
        env__game__a="from ..physics.b import x",
        env__game__c="",
        env__physics__b="",
        env__physics__d="from ..game import c",
    )
    assert circles(file_graph(imports)) == []
    assert circles(folder_graph(imports)) in (
        ["env/game > env/physics > env/game"],
        ["env/physics > env/game > env/physics"],
    )


def test_a_folder_may_offer_what_its_sub_folders_define_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env/__init__.py").write_text("from .program.program import Program", encoding="utf-8")
    assert folder_graph(tree(tmp_path)) == {}
    assert circles(file_graph(tree(tmp_path, env__program__program="from .. import Program"))) != []
