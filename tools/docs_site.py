"""Writes the pages of the documentation's site: those of `docs/`, pages from elsewhere, and the reference.

docs/*.md ─────────────┐
README.md, ... ────────┼──> build/docs, with links that lead to pages ──> mkdocs build ──> build/site
the help of commands ──┘

`pip install -e '.[docs]' && python -m tools.docs_site && mkdocs build`. The files of `docs/` read the same on GitHub.
"""

import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from omni_cli.cli.app import app
from omni_cli.cli.command_help import CommandHelp, command_helps

ROOT = Path(__file__).parent.parent

ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "omni_cli/models/demo/README.md": "project/demo-model.md",
}
"""Files of the repository outside of `docs/` -> the pages that they are."""

COMMANDS = "reference/commands.md"

_LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")


def write_pages(folder: Path) -> None:
    """Write every page, and the files beside the pages of `docs/`, into `folder`, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in site_pages():
        path = folder / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for file in (ROOT / "docs").rglob("*"):
        if file.is_file() and file.suffix != ".md":
            target = folder / file.relative_to(ROOT / "docs")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target)


def site_pages() -> Iterator[tuple[str, str]]:
    """Yield the path of each page below the site's root, and its Markdown."""
    own = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    sources = {source: source.removeprefix("docs/") for source in sorted(own)} | ELSEWHERE
    for source, page in sources.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        yield page, _LINK.sub(lambda link, source=source, page=page: _site_link(link, source, page), text)  # type: ignore[misc]
    yield COMMANDS, commands_page(list(command_helps(typer.main.get_command(app), "omni-gen")))


def commands_page(commands: list[CommandHelp]) -> str:
    """Return the page with every command and option, as `--help` has them."""
    lines = ["# Commands", "", "Made from the help of the program; `omni-gen man` prints the same as a manual page."]
    for command in commands:
        lines += ["", f"## {command.name}", "", command.text, "", f"```text\n{command.name} {command.usage}\n```"]
        for title, options in command.panels.items():
            lines += ["", f"**{title}**", "", "| option | |", "|---|---|"]
            lines += [f"| `{_cell(names)}` | {_cell(explanation)} |" for names, explanation in options]
    return "\n".join(lines) + "\n"


def _site_link(link: re.Match[str], source: str, page: str) -> str:
    """Return the `link` of the repository's file `source`, as it is on the site's `page`."""
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target or target.startswith("mailto:"):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    linked = ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    is_page = linked is not None and (linked in ELSEWHERE.values() or (ROOT / path).is_file())
    if linked is None or not is_page:
        return f"`{path}`" if text[1:-1] == path else f"{text[1:-1]} (`{path}`)"
    return f"{text}({os.path.relpath(linked, posixpath.dirname(page) or '.')}{anchor})"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;") if "`" not in text else text


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs")
