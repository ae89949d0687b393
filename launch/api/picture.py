"""Pictures of mappings, which notebooks show."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...env.program.mapping import Mapping
    from ...env.program.program import Program


@dataclass(frozen=True)
class Picture:
    """A picture, shown as the last line of a notebook's cell.

    Attributes:
      png: the file's bytes.
    """

    png: bytes = field(repr=False)

    def save(self, path: str | Path) -> None:
        """Writes the picture as a .png file. Raises UserError if it cannot be written."""
        from ...env.storage.atomic import write_atomically

        write_atomically(Path(path), self.png)

    def _repr_png_(self) -> bytes:
        """Returns the picture, which notebooks show."""
        return self.png


def draw(program: "Program", mapping: "Mapping", beside: "Mapping | None", names: tuple[str, str]) -> Picture:
    """Returns the picture of a mapping of a program, with another one below it."""
    from ...env.viewer import picture

    with tempfile.TemporaryDirectory(prefix="mallocmuzero-") as folder:
        path = Path(folder) / "picture.png"
        picture.draw(program, mapping, path, beside=beside, names=names)
        return Picture(path.read_bytes())
