"""The manual page: every option, and text that roff prints as it is."""

import shutil
import subprocess

import pytest
import typer

from omni_cli.cli.app import app
from omni_cli.cli.command_help import CommandHelp, command_helps
from omni_cli.cli.man_page import man_page
from tests.cli.conftest import omni_gen

HOSTILE = CommandHelp("tool", "[OPTIONS]", ".so /etc/passwd\n\n'br \\fBbold\\fR", {"P": [("--a-b <str>", 'say "x"')]})


def test_the_page_has_every_option() -> None:
    page = omni_gen("man").stdout.replace("\\-", "-")
    for command in command_helps(typer.main.get_command(app), "omni-gen"):
        assert f'.SH "{command.name.upper()}"' in page
        for options in command.panels.values():
            assert not [names for names, _ in options if names not in page]


def test_text_is_never_a_request_of_roff() -> None:
    lines = man_page([HOSTILE]).splitlines()
    assert [line.split()[0] for line in lines if line.startswith((".", "'"))] == [
        ".TH", ".SH", ".SH", ".SH", ".PP", ".PP", ".SS", ".TP", ".B", ".SH", *[".TP", ".B"] * 5,
    ]  # fmt: skip
    assert "\\&.so /etc/passwd" in lines
    assert "\\&'br \\efBbold\\efR" in lines


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff here")
def test_roff_formats_the_page_without_a_warning() -> None:
    page = man_page(list(command_helps(typer.main.get_command(app), "omni-gen")))
    result = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", "-ww"], input=page, capture_output=True, text=True, check=True
    )
    assert result.stderr == ""
    assert "omni-gen bench transport" in result.stdout
