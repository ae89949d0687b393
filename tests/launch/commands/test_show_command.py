"""`mallocmuzero show`: one mapping or two, on the time axis of either cost model."""

import struct
from pathlib import Path

from launch_cases import call


def size(picture: Path) -> tuple[int, int]:
    """Returns the width and the height of a PNG file."""
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


def test_a_second_mapping_stands_below_the_first(tmp_path: Path) -> None:
    alone, both, mapping = tmp_path / "alone.png", tmp_path / "both.png", tmp_path / "mapping.json.gz"
    solve = ("solve", "tiny", "--solver", "restarts", "--evaluations", "50", "--objective", "msa", "-o", str(mapping))
    assert call(*solve)[0] == 0
    assert call("show", "tiny", "production", "-o", str(alone)) == (0, f"wrote {alone}\n", "")
    assert call("show", "tiny", "production", "--beside", str(mapping), "-o", str(both))[0] == 0
    assert size(both)[1] > size(alone)[1]
    status, _, errors = call("show", "tiny", "--beside", str(mapping), "-o", str(both))
    assert (status, "--beside needs a mapping to stand beside" in errors) == (2, True)


def test_the_time_axis_is_that_of_the_cost_model(tmp_path: Path) -> None:
    pictures = {}
    for model in ("msa", "cycles"):
        path = tmp_path / f"{model}.svg"
        assert call("show", "tiny", "production", "--model", model, "-o", str(path))[0] == 0
        pictures[model] = path.read_text(encoding="utf-8")
    assert pictures["msa"] != pictures["cycles"]
