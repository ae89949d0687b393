"""Draws docs/house.svg, the picture of the rooms: `python docs/house.py`.

Boxes and their texts are the folders of the package and the first lines of their docstrings. Solid arrows are the
imports between rooms, read from the source; dashed arrows are the data that passes while an agent is trained. Only the
places of the boxes and the ways of the arrows are laid out by hand; an import between two rooms that has no way here is
an error. A test draws the picture anew and compares.
"""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "cases"))

from import_reader import Import, read_package, within  # noqa: E402

PICTURE = ROOT / "docs" / "house.svg"

# Left edge, width and columns of sub-folders of each room, in the order in which the test of the rooms lists them.
PLACES = {
    "launch": (40, 1320, 5),
    "roundtrip": (112, 230, 1),
    "actors": (376, 350, 2),
    "replay": (822, 206, 1),
    "learner": (1132, 228, 1),
    "solvers": (152, 534, 3),
    "env": (40, 1320, 6),
}
ROOMS = tuple(PLACES)
# Parts of rooms that other rooms may import where they may not import the room.
PARTS = ("learner/networks", "learner/egrl")
COLOURS = {
    "launch": ("#475569", "#94a3b8"),
    "roundtrip": ("#b45309", "#f59e0b"),
    "actors": ("#1d4ed8", "#60a5fa"),
    "replay": ("#7e22ce", "#c084fc"),
    "learner": ("#be123c", "#fb7185"),
    "solvers": ("#0f766e", "#2dd4bf"),
    "env": ("#15803d", "#4ade80"),
}
WIDTH = 1400
PADDING = 16
GAP = 10
# Average widths of a character, as a share of the font's size: a little wide, since fonts differ.
SANS, MONO = 0.54, 0.615


@dataclass
class Cell:
    """A sub-folder: its name and its lines of text, in a box."""

    name: str
    lines: list[str]
    left: float = 0
    top: float = 0
    width: float = 0
    height: float = 0


@dataclass
class Box:
    """A room: its name, text, sub-folders and the files that lie in it directly."""

    name: str
    left: float
    width: float
    lines: list[str]
    cells: list[Cell]
    files: list[str]
    top: float = 0
    height: float = 0

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height


def wrapped(text: str, width: float, size: float, share: float = SANS) -> list[str]:
    """Breaks text into lines of at most `width` units in a font of that size."""
    lines = [""]
    for word in text.split():
        if lines[-1] and word != "·" and (len(lines[-1]) + 1 + len(word)) * size * share > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def first_sentence(folder: str) -> str:
    """Returns the first sentence of the docstring of a folder's `__init__.py`, without marks."""
    words = ast.get_docstring(ast.parse((ROOT / folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    return " ".join(words.split()).split(". ")[0].removesuffix(".").replace("`", "") + "."


def make_box(name: str) -> Box:
    left, width, columns = PLACES[name]
    inner = width - 2 * PADDING
    cells = []
    for path in sorted(path.parent for path in (ROOT / name).glob("*/__init__.py")):
        cell_width = (inner - (columns - 1) * GAP) / columns
        lines = wrapped(first_sentence(f"{name}/{path.name}"), cell_width - 20, 12)
        cells.append(Cell(path.name, lines, width=cell_width))
    files = " · ".join(sorted(path.stem for path in (ROOT / name).glob("*.py") if path.stem != "__init__"))
    return Box(
        name=name,
        left=left,
        width=width,
        lines=wrapped(first_sentence(name), inner, 13.5),
        cells=cells,
        files=wrapped(files, inner, 11.5, MONO) if files else [],
    )


def place(box: Box, top: float) -> None:
    """Sets the places of a box and of its cells, and its height."""
    box.top = top
    y = top + 42 + 18 * len(box.lines)
    columns = PLACES[box.name][2]
    for begin in range(0, len(box.cells), columns):
        row = box.cells[begin : begin + columns]
        height = 32 + 15 * max(len(cell.lines) for cell in row)
        for column, cell in enumerate(row):
            cell.left, cell.top, cell.height = box.left + PADDING + column * (cell.width + GAP), y, height
        y += height + GAP
    box.height = y + 16 * len(box.files) + (8 if box.cells else 14) - top


def layout() -> dict[str, Box]:
    """Returns the boxes in their places: launch above all, env below all, the training loop between them."""
    boxes = {name: make_box(name) for name in ROOMS}
    place(boxes["launch"], 30)
    top = boxes["launch"].bottom + 92
    for name in ("roundtrip", "actors", "replay", "learner"):
        place(boxes[name], top)
    actors, replay = boxes["actors"], boxes["replay"]
    actors.height = replay.height = max(actors.height, replay.height)
    place(boxes["solvers"], max(actors.bottom, boxes["roundtrip"].bottom) + 66)
    place(boxes["env"], max(boxes["solvers"].bottom, boxes["learner"].bottom) + 60)
    return boxes


def arrows(imports: list[Import]) -> list[tuple[str, str]]:
    """Returns which room imports which room, or which part of one."""
    found = set()
    for one in imports:
        room, target = one.file.split("/")[0], one.target.split("/")[0]
        if one.inside and room in ROOMS and target in ROOMS and room != target:
            parts = [part for part in PARTS if within(one.target, part) and room != "launch"]
            found.add((room, parts[0] if parts else target))
    return sorted(found)


def routes(boxes: dict[str, Box]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Returns the corners of the way of each arrow."""
    launch, roundtrip, actors, replay, learner, solvers, env = (boxes[name] for name in ROOMS)
    networks, egrl = (
        next((cell for cell in learner.cells if cell.name == part.split("/")[1]), learner.cells[0]) for part in PARTS
    )

    def down(x: float, above: Box, below: Box) -> list[tuple[float, float]]:
        return [(x, above.bottom), (x, below.top)]

    return {
        ("launch", "roundtrip"): down(228, launch, roundtrip),
        ("launch", "actors"): down(470, launch, actors),
        ("launch", "replay"): down(925, launch, replay),
        ("launch", "learner"): down(1310, launch, learner),
        ("launch", "solvers"): [(88, launch.bottom), (88, solvers.top + 40), (solvers.left, solvers.top + 40)],
        ("launch", "env"): down(64, launch, env),
        ("roundtrip", "solvers"): down(228, roundtrip, solvers),
        ("roundtrip", "env"): down(130, roundtrip, env),
        ("actors", "solvers"): down(530, actors, solvers),
        ("actors", "env"): down(704, actors, env),
        ("actors", "replay"): [(actors.right, actors.top + 104), (replay.left, actors.top + 104)],
        ("actors", "learner/networks"): [
            (646, actors.bottom),
            (646, actors.bottom + 28),
            (1104, actors.bottom + 28),
            (1104, networks.top + 16),
            (networks.left, networks.top + 16),
        ],
        ("solvers", "learner/networks"): [
            (solvers.right, solvers.top + 34),
            (1086, solvers.top + 34),
            (1086, networks.top + 34),
            (networks.left, networks.top + 34),
        ],
        ("solvers", "learner/egrl"): [
            (solvers.right, solvers.top + 58),
            (1068, solvers.top + 58),
            (1068, egrl.top + 24),
            (egrl.left, egrl.top + 24),
        ],
        ("solvers", "env"): down(400, solvers, env),
        ("replay", "env"): down(925, replay, env),
        ("learner", "replay"): [(learner.left, learner.top + 104), (replay.right, learner.top + 104)],
        ("learner", "env"): down(1310, learner, env),
    }


def flows(boxes: dict[str, Box]) -> Iterator[tuple[str, list[tuple[float, float]], tuple[float, float]]]:
    """Yields the data that passes while an agent is trained: its name, its way and the middle of its name."""
    actors, replay, learner = boxes["actors"], boxes["replay"], boxes["learner"]
    y = actors.top + 62
    yield "segments", [(actors.right, y), (replay.left, y)], ((actors.right + replay.left) / 2, y - 9)
    yield "batches", [(replay.right, y), (learner.left, y)], ((replay.right + learner.left) / 2, y - 9)
    top = actors.top - 40
    yield (
        "parameters, versioned",
        [(1200, learner.top), (1200, top), (620, top), (620, actors.top)],
        (775, top - 9),
    )


def path(corners: list[tuple[float, float]], radius: float = 9) -> str:
    """Returns the path through these corners, rounded."""
    parts = [f"M{corners[0][0]:g} {corners[0][1]:g}"]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        for point, word in ((before, "L"), (after, "Q")):
            length = abs(point[0] - corner[0]) + abs(point[1] - corner[1])
            share = min(radius, length / 2) / length
            x, y = (corner[i] + share * (point[i] - corner[i]) for i in (0, 1))
            parts.append(f"L{x:g} {y:g}" if word == "L" else f"Q{corner[0]:g} {corner[1]:g} {x:g} {y:g}")
    parts.append(f"L{corners[-1][0]:g} {corners[-1][1]:g}")
    return "".join(parts)


def text(x: float, y: float, words: str, style: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(words)}</text>'


def rectangle(box: Box | Cell, style: str, radius: float) -> str:
    size = f'width="{box.width:g}" height="{box.height:g}" rx="{radius:g}"'
    return f'<rect class="{style}" x="{box.left:g}" y="{box.top:g}" {size}/>'


def style() -> str:
    light = "\n".join(f".{room} {{ --accent: {colours[0]} }}" for room, colours in COLOURS.items())
    dark = "\n".join(f".{room} {{ --accent: {colours[1]} }}" for room, colours in COLOURS.items())
    return f"""<style>
svg {{ --paper: #ffffff; --ink: #1e293b; --soft: #526075; --cell: #ffffff; --tint: 8%; --flow: #64748b }}
{light}
@media (prefers-color-scheme: dark) {{
svg {{ --paper: #0d1117; --ink: #e6edf3; --soft: #9aa7b8; --cell: #0d1117; --tint: 14%; --flow: #8b98a9 }}
{dark}
}}
text {{ font-family: Inter, system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--ink) }}
.paper {{ fill: var(--paper) }}
.room {{ fill: var(--accent); fill-opacity: .08; stroke: var(--accent); stroke-width: 1.5 }}
.cell {{ fill: var(--cell); stroke: var(--accent); stroke-opacity: .35 }}
.name {{ font-size: 19px; font-weight: 700; fill: var(--accent) }}
.what {{ font-size: 13.5px }}
.part {{ font-weight: 600; font-size: 13px; fill: var(--accent) }}
.about {{ font-size: 12px; fill: var(--soft) }}
.files {{ font-size: 11.5px; fill: var(--soft) }}
.part, .files {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }}
.halo {{ fill: none; stroke: var(--paper); stroke-width: 7 }}
.import {{ fill: none; stroke: var(--accent); stroke-width: 1.8 }}
.head {{ fill: var(--accent) }}
.flow {{ fill: none; stroke: var(--flow); stroke-width: 1.8; stroke-dasharray: 6 5 }}
.plain {{ fill: none; stroke: var(--flow); stroke-width: 1.8 }}
.plain-head, .flow-head {{ fill: var(--flow) }}
.label {{ font-size: 13px; font-style: italic; fill: var(--soft); text-anchor: middle }}
</style>"""


def head(corners: list[tuple[float, float]], style: str) -> str:
    """Returns the triangle at the end of an arrow."""
    (x0, y0), (x, y) = corners[-2:]
    dx, dy = ((x > x0) - (x < x0)), ((y > y0) - (y < y0))
    points = [
        (x, y),
        (x - 10 * dx + 4.5 * dy, y - 10 * dy + 4.5 * dx),
        (x - 10 * dx - 4.5 * dy, y - 10 * dy - 4.5 * dx),
    ]
    return f'<polygon class="{style}" points="{" ".join(f"{a:g},{b:g}" for a, b in points)}"/>'


def draw_arrow(corners: list[tuple[float, float]], style: str, head_style: str) -> list[str]:
    # The line ends inside its head.
    (x0, y0), (x, y) = corners[-2:]
    end = (x - 6 * ((x > x0) - (x < x0)), y - 6 * ((y > y0) - (y < y0)))
    way = path([*corners[:-1], end])
    return [f'<path class="halo" d="{way}"/>', f'<path class="{style}" d="{way}"/>', head(corners, head_style)]


def draw_box(box: Box) -> list[str]:
    parts = [
        f'<g class="{box.name}">',
        rectangle(box, "room", 12),
        text(box.left + PADDING, box.top + 28, f"{box.name}/", "name"),
    ]
    for number, line in enumerate(box.lines):
        parts.append(text(box.left + PADDING, box.top + 51 + 18 * number, line, "what"))
    for cell in box.cells:
        parts.append(rectangle(cell, "cell", 7))
        parts.append(text(cell.left + 10, cell.top + 19, f"{cell.name}/", "part"))
        for number, line in enumerate(cell.lines):
            parts.append(text(cell.left + 10, cell.top + 37 + 15 * number, line, "about"))
    first = max([cell.top + cell.height for cell in box.cells], default=box.top + 38 + 18 * len(box.lines)) + 20
    for number, line in enumerate(box.files):
        parts.append(text(box.left + PADDING, first + 16 * number, line, "files"))
    return [*parts, "</g>"]


def legend(left: float, top: float) -> list[str]:
    parts = []
    for y, line, tip, words in (
        (top, "plain", "plain-head", "imports"),
        (top + 28, "flow", "flow-head", "hands data to, while an agent is trained"),
    ):
        parts += draw_arrow([(left, y), (left + 52, y)], line, tip)
        parts.append(text(left + 64, y + 4.5, words, "about"))
    return parts


def draw() -> str:
    """Returns the picture as SVG."""
    boxes = layout()
    ways = routes(boxes)
    height = boxes["env"].bottom + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" role="img" aria-labelledby="title">',
        '<title id="title">The rooms of mallocMuZero, and which imports which</title>',
        style(),
        f'<rect class="paper" width="{WIDTH}" height="{height:g}"/>',
    ]
    for name, corners, (x, y) in flows(boxes):
        parts += [*draw_arrow(corners, "flow", "flow-head"), text(x, y, name, "label")]
    for room, target in arrows(read_package(ROOT, "mallocmuzero", ROOMS).imports()):
        if (room, target) not in ways:
            raise SystemExit(f"{room} imports {target}: the house has no such arrow (see tests/test_rooms.py)")
        parts.append(f'<g class="{room}"><title>{room} imports {target}</title>')
        parts += [*draw_arrow(ways[room, target], "import", "head"), "</g>"]
    for box in boxes.values():
        parts += draw_box(box)
    parts += legend(972, boxes["solvers"].top + 150)
    return "\n".join([*parts, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
    print(PICTURE.relative_to(ROOT))
