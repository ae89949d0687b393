"""The documents keep their word: their examples run, their links, files and modules exist, commands are understood."""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import reference
import transcripts

import mallocmuzero

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
# `docs/results/faults.md` speaks of a metric of this name.
_NOT_FILES = {"replay/inserts"}


def blocks(document: str, language: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def test_the_games_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("docs/mallocgame.md", "python")
    exec(compile(example, "docs/mallocgame.md", "exec"), {})
    latency = float(capsys.readouterr().out.split()[0])
    assert 7e-3 < latency < 1e-2


def test_the_agents_example_says_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in blocks("docs/agent.md", "python") if "follow=False" in block]
    exec(compile(example, "docs/agent.md", "exec"), {})
    ratios = [float(line) for line in capsys.readouterr().out.splitlines()]
    (said,) = re.findall(r"# ([\d.]+) and ([\d.]+)", example)
    assert ratios == pytest.approx([float(figure) for figure in said], abs=5e-4)


def test_the_agents_example_of_outcomes_counts_what_its_comment_says(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [block for block in blocks("docs/agent.md", "python") if "move_latencies_s" in block]
    exec(compile(example, "docs/agent.md", "exec"), {})
    _, *shares = map(float, capsys.readouterr().out.split())  # the first is how long it takes here
    (said,) = re.findall(r"resnet50-b128: [\d.]+ s, ([\d.]+), ([\d.]+);", example)
    assert shares == pytest.approx([float(figure) for figure in said], abs=5e-3)


def test_every_link_between_documents_leads_somewhere() -> None:
    for document in DOCUMENTS:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (document.parent / link).exists(), f"{document.relative_to(ROOT)} links to {link}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document: Path) -> None:
    rooms = "env|solvers|actors|replay|learner|roundtrip|launch|benchmarks|tests|docs|deploy"
    text = document.read_text(encoding="utf-8")
    for name in set(re.findall(rf"(?<![\w/.<])(?:{rooms})/[\w./*-]*\w", text)) - _NOT_FILES:
        # A word in capitals stands for a name.
        assert any(ROOT.glob(re.sub(r"\b[A-Z]{3,}\b", "*", name))), f"{document.relative_to(ROOT)} names {name}"


def source_of(module: Path) -> str:
    """The source of a module or a package; empty if there is none."""
    files = [file for file in (module.with_suffix(".py"), module / "__init__.py") if file.is_file()]
    return "".join(file.read_text(encoding="utf-8") or "\n" for file in files)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_module_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for name in set(re.findall(r"(?<![\w/])(?:mallocmuzero|benchmarks)(?:\.\w+)+", text)):
        package, *parts = name.split(".")
        if package == "mallocmuzero" and parts[0] in mallocmuzero.__all__:
            continue
        root = ROOT if package == "mallocmuzero" else ROOT / package
        # The last part may be defined by the module before it.
        defined = re.compile(rf"^(def|class) {parts[-1]}\b|^{parts[-1]}\b.* = ", re.M)
        assert source_of(root.joinpath(*parts)) or defined.search(source_of(root.joinpath(*parts[:-1]))), (
            f"{document.relative_to(ROOT)} names {name}"
        )


def test_the_map_of_the_contributing_guide_leads_to_files() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (`\S+`.*) \|$", text.partition("| to read |")[2].partition("\n\n")[0], re.M)
    files = [name for row in rows for name in re.findall(r"`(\S+)`", row)]
    assert len(files) >= 20
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("line", [line for block in blocks("README.md", "sh") for line in block.splitlines()])
def test_every_command_line_of_the_readme_is_understood(line: str) -> None:
    from mallocmuzero.launch.cli import make_parser

    words = shlex.split(line.removesuffix("&&").removesuffix("\\"), comments=True)
    if not words or not words[0].endswith("mallocmuzero"):
        pytest.skip("not ours")
    make_parser().parse_args(words[1:])


def test_the_marked_commands_are_there_for_ci() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for mark in ("main job", "tests"):
        assert re.search(rf"<!-- {mark} -->\n```sh\n", text), mark


def test_the_python_pages_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    first, game = blocks("docs/python.md", "python")
    exec(compile(first, "docs/python.md", "exec"), {})
    *_, last = capsys.readouterr().out.splitlines()
    assert 0 < float(last.split()[1]) <= 1.5
    # In a process of its own: here Gymnasium may have come after this package.
    code = f"{game}\nprint(game.spec.id)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "mallocmuzero/MallocGame-v0"


def test_the_solver_of_the_contributing_page_solves() -> None:
    from mallocmuzero.env.workloads import load
    from mallocmuzero.solvers.common.budget import Budget
    from mallocmuzero.solvers.solve import solve

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"( *)```python\n(.*?)```", text, re.S)
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(example[1]), "CONTRIBUTING.md", "exec"), names)
    solution = solve(load("tiny"), "mine", budget=Budget(None, 20), solvers={"mine": names["mine"]})
    assert solution.evaluations >= 20


def test_the_command_lines_page_tells_the_exit_statuses_of_the_code() -> None:
    from mallocmuzero.launch.cli import make_parser

    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| (\d+) \|", page, re.M)
    assert told == re.findall(r"^  (\d+)  ", make_parser().epilog or "", re.M)


def test_the_pages_of_reference_are_what_the_code_says() -> None:
    assert reference.COMMANDS.read_text(encoding="utf-8") == reference.commands_page(), "run `python docs/reference.py`"
    assert reference.SETTINGS.read_text(encoding="utf-8") == reference.settings_page(), "run `python docs/reference.py`"


def test_every_setting_is_explained() -> None:
    rows = [line for line in reference.settings_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize("page", transcripts.PAGES, ids=lambda path: path.name)
def test_outputs_that_a_page_shows_are_what_its_commands_printed(page: Path) -> None:
    text, records = page.read_text(encoding="utf-8"), transcripts.read()
    shown = transcripts.blocks(text)
    assert shown
    for name, command in shown.items():
        assert records[name]["command"] == command, f"{page.name}: {name}: run `python docs/transcripts.py`"
    assert transcripts.rendered(text, records) == text, f"{page.name}: run `python docs/transcripts.py --render`"


@pytest.mark.parametrize("line", [line for block in blocks("docs/tutorial.md", "sh") for line in block.splitlines()])
def test_every_command_line_of_the_tutorial_is_understood(line: str) -> None:
    test_every_command_line_of_the_readme_is_understood(line)
