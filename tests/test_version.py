"""The version is written once, and the changelog's newest release is it."""

import re
from importlib.metadata import version
from pathlib import Path

import omni_cli

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def test_the_newest_release_in_the_changelog_is_the_packages_version() -> None:
    newest = re.search(r"^## ([0-9]\S*)$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == omni_cli.__version__


def test_the_installed_metadata_has_the_packages_version() -> None:
    assert version("omni-gen") == omni_cli.__version__
