"""What the documents show runs."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
    (example,) = [block for block in blocks("docs/agent.md", "python") if "move_outcomes_s" in block]
    exec(compile(example, "docs/agent.md", "exec"), {})
    _, *shares = map(float, capsys.readouterr().out.split())  # the first is how long it takes here
    (said,) = re.findall(r"resnet50-b128: [\d.]+ s, ([\d.]+), ([\d.]+);", example)
    assert shares == pytest.approx([float(figure) for figure in said], abs=5e-3)


def test_every_link_between_documents_leads_somewhere() -> None:
    documents = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for document in documents:
        for link in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in link:
                assert (document.parent / link).exists(), f"{document.relative_to(ROOT)} links to {link}"


@pytest.mark.parametrize("line", [line for block in blocks("README.md", "sh") for line in block.splitlines()])
def test_every_command_line_of_the_readme_is_understood(line: str) -> None:
    from mallocmuzero.launch.cli import make_parser

    words = line.removesuffix("&&").split()
    if not words[0].endswith("mallocmuzero"):
        pytest.skip("not ours")
    make_parser().parse_args(words[1:])


def test_the_marked_commands_are_there_for_ci() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for mark in ("main job", "tests"):
        assert re.search(rf"<!-- {mark} -->\n```sh\n", text), mark
