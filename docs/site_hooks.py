"""Makes the site's pages of files that lie outside docs/, for mkdocs.yml.

README.md becomes the front page, CONTRIBUTING.md, CHANGELOG.md and SECURITY.md pages of their own, and the decisions
get a list. Links between them lead to the pages. A link to a source file keeps its text: the site holds no sources.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
# The page of each file outside docs/.
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
_DECISIONS = "decisions/index.md"
# Pages with wide tables, which get the room of the list of contents; so do those of results.
_WIDE = ("benchmark.md", "cost-models.md", "policy.md", "xla-solver.md")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages of files outside docs/, and the list of decisions."""
    for source, page in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        # The front page is the only one of its tab: no list of pages beside it.
        head = "---\nhide: [navigation]\n---\n" if page == "index.md" else ""
        files.append(File.generated(config, page, content=head + _with_links(text, source, page)))
    if files.get_file_from_path(_DECISIONS) is None:
        files.append(File.generated(config, _DECISIONS, content=_decisions()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Returns the text of a page, with links that lead out of docs/ turned into what the site has."""
    source = page.file.src_uri
    if source.startswith("results/") or source in _WIDE:
        page.meta.setdefault("hide", ["toc"])
    if source in OUTSIDE.values() or source == _DECISIONS:
        return markdown
    return _with_links(markdown, posixpath.join("docs", source), source)


def _decisions() -> str:
    pages = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
    titles = [re.search(r"^# (.*)", page.read_text(encoding="utf-8")) for page in pages]
    rows = [f"- [{title[1] if title else page.stem}]({page.name})" for page, title in zip(pages, titles, strict=True)]
    return "# Decisions\n\nWhy things are as they are, one page each.\n\n" + "\n".join(rows) + "\n"


def _with_links(text: str, source: str, page: str) -> str:
    """Returns the text of the file `source`, whose links are relative to it, with links relative to `page`."""

    def relink(found: re.Match[str]) -> str:
        image, label, target, anchor = found[1], found[2], found[3], found[4] or ""
        if "://" in target or target.startswith("mailto:") or not target:
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if path in OUTSIDE:
            wanted = OUTSIDE[path]
        elif path == "docs/decisions":
            wanted = _DECISIONS
        elif path.startswith("docs/") and not path.endswith((".jsonl", ".py")) and not path.startswith("docs/schema"):
            wanted = path.removeprefix("docs/")
        else:
            return label
        return f"{image}[{label}]({posixpath.relpath(wanted, posixpath.dirname(page) or '.')}{anchor})"

    return _LINK.sub(relink, text)
