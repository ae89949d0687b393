"""The rooms keep to themselves: what a room may import, read from its source and from what importing it loads."""

import ast
import pkgutil
import subprocess
import sys
from pathlib import Path

import mallocmuzero
import pytest

ROOT = Path(mallocmuzero.__file__).parent
# Room -> rooms it may import. `launch` may import all; actors take the networks alone from `learner`, and
# the gradient half of the solver `egrl`.
ALLOWED = {
    "env": {"env"},
    "replay": {"env", "replay"},
    "learner": {"env", "replay", "learner"},
    "actors": {"env", "replay", "actors", "learner.networks", "learner.egrl"},
}
HEAVY = {"env": ("jax", "ray", "tensorflow", "reverb"), "replay": ("tensorflow", "reverb", "jax", "ray")}


def modules(room: str) -> list[str]:
    """Every module of a room but the stand-alone ones, which run in the capture environment."""
    found = [f"mallocmuzero.{room}"]
    for info in pkgutil.walk_packages([str(ROOT / room)], f"mallocmuzero.{room}."):
        if not info.name.startswith(("mallocmuzero.env.capture.worker", "mallocmuzero.env.workloads.models")):
            found.append(info.name)
    return found


def imported_rooms(file: Path, room: str) -> set[str]:
    """Rooms that a file imports relatively, as `room` or `room.module`."""
    here = ["mallocmuzero", *file.relative_to(ROOT).with_suffix("").parts]
    rooms = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level]
            target = [*base[1:], *(node.module or "").split(".")]
            target = [part for part in target if part]
            if target and target[0] != "version":
                rooms.add(target[0])
                rooms.add(".".join(target[:2]))
    return {name for name in rooms if name.split(".")[0] != room}


@pytest.mark.parametrize("room", sorted(ALLOWED))
def test_a_room_imports_only_what_the_house_allows(room: str) -> None:
    for file in (ROOT / room).rglob("*.py"):
        for name in imported_rooms(file, room):
            top = name.split(".")[0]
            allowed = top in ALLOWED[room] or any(a.split(".")[0] == top and name in (top, a) for a in ALLOWED[room])
            assert allowed, f"{file.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("room", sorted(HEAVY))
def test_importing_a_room_loads_nothing_heavy(room: str) -> None:
    code = f"""
import sys
for name in {modules(room)!r}:
    __import__(name)
print([name for name in {HEAVY[room]!r} if name in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
