"""The documentation's site: every link leads somewhere, every command is in the reference."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from omni_cli.cli.app import app
from omni_cli.cli.command_help import command_helps
from tools.docs_site import ELSEWHERE, ROOT, site_pages, write_pages


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    write_pages(tmp_path / "docs")
    config = (ROOT / "mkdocs.yml").read_text().replace("build/docs", str(tmp_path / "docs"))
    (tmp_path / "mkdocs.yml").write_text(config.replace("build/site", str(tmp_path / "site")))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(tmp_path / "mkdocs.yml")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for page, _ in site_pages():
        assert (tmp_path / "site" / page).with_suffix(".html").is_file()
    assert (tmp_path / "site" / "examples" / "slurm.sh").is_file()


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    assert not [page for page, _ in site_pages() if page not in navigation]


def test_the_reference_has_every_option_of_every_command() -> None:
    reference = dict(site_pages())["reference/commands.md"]
    commands = list(command_helps(typer.main.get_command(app), "omni-gen"))
    assert {command.name for command in commands} >= {"omni-gen run", "omni-gen bench transport"}
    options = [
        names.split()[0].rstrip(",") for command in commands for panel in command.panels.values() for names, _ in panel
    ]
    assert len(options) > 100
    assert not [option for option in options if option.replace("|", "\\|") not in reference]


@pytest.mark.parametrize(("source", "page"), ELSEWHERE.items())
def test_links_of_pages_from_elsewhere_lead_to_pages(source: str, page: str) -> None:
    text = dict(site_pages())[page]
    assert "](docs/" not in text
    assert "](../" not in text or page.startswith("project/")
    assert (ROOT / source).is_file()
