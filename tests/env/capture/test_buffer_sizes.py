"""Sizes of values from a dumped buffer assignment."""

from pathlib import Path

import pytest

from mallocmuzero.env.capture.buffer_sizes import read_sizes
from mallocmuzero.env.errors import FormatError

ASSIGNMENT = """BufferAssignment:
allocation 0: size 2048, preallocated-temp:
 value: <12 fusion.1 @0> (size=1024,offset=512): f32[16,16]{1,0:T(8,128)}
 value: <13 while.2{0,1} @0> (size=4,offset=0): s32[]
 value: <14 cond.12.clone{0,0} (phi) @0> (size=512,offset=1536): f32[8]{0:T(128)}
 value: <15 cond.3 (phi) @0> (size=256,offset=1536): f32[8]{0:T(128)}
"""


def test_every_value_has_its_size(tmp_path: Path) -> None:
    """Where the branches of a conditional return a parameter, only a value marked `phi` tells the size."""
    path = tmp_path / "buffer-assignment.txt"
    path.write_text(ASSIGNMENT)
    assert read_sizes(path) == {
        ("fusion.1", ()): 1024,
        ("while.2", (0, 1)): 4,
        ("cond.12.clone", (0, 0)): 512,
        ("cond.3", ()): 256,
    }


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.txt"
    path.write_text("HloModule jit_step\n")
    with pytest.raises(FormatError, match=r"other\.txt: .*no buffer assignment"):
        read_sizes(path)
