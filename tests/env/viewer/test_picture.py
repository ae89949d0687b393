"""Pictures are made, depend on what they show, and fail in one line."""

from pathlib import Path

import matplotlib
import pytest
from programs import make_mapping, make_program

from mallocmuzero.env.errors import UserError
from mallocmuzero.env.program.mapping import CROSS_PROGRAM, WRITE_BACK
from mallocmuzero.env.program.program import all_hbm
from mallocmuzero.env.verifier.verify import check
from mallocmuzero.env.viewer.picture import draw

PROGRAM = make_program(
    [
        ("a", 1.0, ["w"], ["x"]),
        ("b", 0.1, ["x", "w"], ["y"]),
        ("c", 2.0, ["y"], ["y"]),
        ("d", 0.0, ["x", "y"], ["out"]),
    ],
    {"w": {"size": 32, "input": True}, "x": 24, "y": 600, "out": {"size": 32, "output": True}},
    loops=[(2, 2, 7)],
    reserved={"d": 16},
)
MAPPING = make_mapping(
    PROGRAM,
    [("a", "x"), ("b", "x"), ("a", "w"), ("b", "w")],
    [("x", 0, 1, 64), ("w", 0, 3, 16)],
    [
        {"buffer": "w", "start": -1, "end": 0, "direction": CROSS_PROGRAM},
        {"buffer": "x", "start": 0, "end": 2, "direction": WRITE_BACK},
    ],
)


def test_pictures_depend_on_what_they_show(tmp_path: Path) -> None:
    check(PROGRAM, PROGRAM.target, MAPPING)
    settings = dict(matplotlib.rcParams)
    pictures = []
    for name, mapping, beside in (
        ("full", MAPPING, None),
        ("again", MAPPING, None),
        ("empty", all_hbm(PROGRAM), None),
        ("pair", MAPPING, all_hbm(PROGRAM)),
        ("program", None, None),
    ):
        draw(PROGRAM, mapping, tmp_path / f"{name}.svg", beside=beside)
        pictures.append((tmp_path / f"{name}.svg").read_bytes())
    full, again, *others = pictures
    assert full.startswith(b"<?xml")
    assert full == again
    assert len({full, *others}) == 4
    assert dict(matplotlib.rcParams) == settings


def test_window(tmp_path: Path) -> None:
    draw(PROGRAM, MAPPING, tmp_path / "whole.png")
    draw(PROGRAM, MAPPING, tmp_path / "part.png", window_us=(1e5, 2e6))
    assert (tmp_path / "whole.png").read_bytes() != (tmp_path / "part.png").read_bytes()
    assert (tmp_path / "part.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="window"):
        draw(PROGRAM, MAPPING, tmp_path / "none.png", window_us=(5.0, 5.0))


@pytest.mark.parametrize("name", ["picture.pdf", "picture"])
def test_unknown_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=r"picture.*\.png or \.svg"):
        draw(PROGRAM, MAPPING, tmp_path / name)


def test_unwritable_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        draw(PROGRAM, None, tmp_path / "file" / "picture.svg")
