"""Runs the commands that pages show, and puts what they print beneath them: `python docs/transcripts.py --python PATH`.

A page marks a block of output as `<!-- NAME: made by docs/transcripts.py -->`; the block of shell commands before it is
run. Commands of a page run in one folder, in order, beside the modules that the page shows (```python blocks that begin
with `# FILE.py`) in the pages before it too. What is printed on standard output is kept in
docs/results/transcripts.json, from which `--render` writes the pages without running anything. Pictures that a page
shows from docs/results and that a command has just written are copied there.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "docs" / "tutorial.md", ROOT / "docs" / "round-trip.md")
RECORDS = ROOT / "docs" / "results" / "transcripts.json"
_BLOCK = re.compile(
    r"```sh\n(?P<command>[^`]*?)```\n(?P<between>(?:(?!```).)*?)"
    r"<!-- (?P<name>[\w-]+): made by docs/transcripts\.py -->\n(?P<printed>.*?)<!-- end -->",
    re.DOTALL,
)
_MODULE = re.compile(r"```python\n# (\w+\.py)\n(.*?)```", re.DOTALL)
# The compiler's Python is an option of these commands, which pages leave out.
_COMPILES = ("capture", "confirm", "impose", "tune")


def blocks(text: str) -> dict[str, str]:
    """Returns the shell commands of each marked block by its name."""
    return {found["name"]: found["command"] for found in _BLOCK.finditer(text)}


def rendered(text: str, records: dict[str, dict[str, str]]) -> str:
    """Returns the page with what its commands printed."""

    def fill(found: re.Match[str]) -> str:
        name = found["name"]
        head = found[0][: found.start("printed") - found.start()]
        return f"{head}```text\n{records[name]['printed']}```\n<!-- end -->" if name in records else found[0]

    return _BLOCK.sub(fill, text)


def record(pages: tuple[Path, ...], python: Path | None, only: list[str]) -> None:
    """Runs the commands of the pages, and keeps what they print after each."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in ("env", "examples"):  # Pages name a model of the benchmark, and an example, as in a clone.
            (folder / name).symlink_to(ROOT / name)
        (folder / "bin").mkdir()
        command = folder / "bin" / "mallocmuzero"
        extra = "" if python is None else f'case "$1" in {"|".join(_COMPILES)}) set -- "$@" --python {python};; esac\n'
        command.write_text(f'#!/bin/sh\n{extra}exec {sys.executable} -m mallocmuzero.launch.cli "$@"\n')
        command.chmod(0o755)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "COLUMNS": "100"}
        for page in pages:
            text = page.read_text(encoding="utf-8")
            for name, module in _MODULE.findall(text):
                (folder / name).write_text(module, encoding="utf-8")
            for name, shell in blocks(text).items():
                if only and name not in only:
                    continue
                print(f"{page.name}: {name}", flush=True)
                ran = subprocess.run(
                    ["bash", "-euo", "pipefail", "-c", shell],
                    cwd=folder,
                    env=environment,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                lines = "".join(f"{line.rstrip()}\n" for line in ran.stdout.splitlines())
                lines = lines.replace(str(python), "PYTHON")
                _keep(name, {"command": shell, "printed": lines})
            for picture in re.findall(r"\]\((?:docs/)?results/([\w-]+\.png)\)", text):
                if (folder / picture).is_file():
                    shutil.copy(folder / picture, RECORDS.parent / picture)


def read() -> dict[str, dict[str, str]]:
    """Returns the commands and what they printed, by name."""
    if not RECORDS.is_file():
        return {}
    records: dict[str, dict[str, str]] = json.loads(RECORDS.read_text(encoding="utf-8"))
    return records


def _keep(name: str, said: dict[str, str]) -> None:
    records = {**read(), name: said}
    RECORDS.write_text(json.dumps(records, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", type=Path, help="interpreter with jax, libtpu and flax, for the compiler")
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="only these blocks, in a folder of their own"
    )
    parser.add_argument("--render", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    if not arguments.render:
        record(PAGES, arguments.python, arguments.only)
    for page in PAGES:
        page.write_text(rendered(page.read_text(encoding="utf-8"), read()), encoding="utf-8")


if __name__ == "__main__":
    main()
