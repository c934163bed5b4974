"""The documentation is true: links lead somewhere, flags exist, every field and format is described."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

from omni_cli.cli.app import app
from omni_cli.prompts import ALIASES, FIELDS, FORMATS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "omni_cli/models/demo/README.md"]
PAGES += sorted((ROOT / "docs").glob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*[a-z]")
FOREIGN_FLAGS = {"--index-url", "--check", "--out", "--sizes", "--frames", "--python"}
FOREIGN_FLAGS |= {"--chaos", "--chaos-seed", "--all-pipelines"}
FOREIGN_FLAGS |= {
    "--build-arg",
    "--cap-drop",
    "--cpus",
    "--gpus",
    "--read-only",
    "--rm",
    "--strict",
    "--shm-size",
    "--tmpfs",
    "--user",
    "--userns",
}
FOREIGN_FLAGS |= {"--prompt", "--negative_prompt", "--steps", "--ei"}
"""Flags of pip, ruff, docker, mkdocs, other tools' prompts, this test suite and `tools/`."""


def page_ids(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    """The page without its fenced code blocks."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives the page's headings."""
    headings = re.findall(r"(?m)^#+ (.+)$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def flags_of(command: Any) -> set[str]:
    """Every option of `command` and of its subcommands."""
    flags = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, TyperGroup):
        for subcommand in command.commands.values():
            flags |= flags_of(subcommand)
    return flags


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_relative_links_lead_to_files_and_headings(page: Path) -> None:
    for target in LINK.findall(prose(page)):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}: {sorted(anchors(linked))}"


@pytest.mark.parametrize("page", PAGES, ids=page_ids)
def test_every_flag_that_is_named_exists(page: Path) -> None:
    named = set(FLAG.findall(page.read_text(encoding="utf-8"))) - FOREIGN_FLAGS
    assert not named - flags_of(typer.main.get_command(app)) - {"--help"}


def test_every_page_is_linked_from_the_readme() -> None:
    linked = set(LINK.findall(prose(ROOT / "README.md")))
    assert not {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} - linked


def test_the_readme_is_read_in_three_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_every_field_and_alias_is_described() -> None:
    text = (ROOT / "docs/prompt-files.md").read_text(encoding="utf-8")
    assert not {name for name in (*FIELDS, *ALIASES) if f"`{name}`" not in text}


def test_every_format_is_described() -> None:
    text = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    assert not {name for name in FORMATS if f"`{name}`" not in text}
