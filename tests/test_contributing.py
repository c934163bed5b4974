"""Every row of CONTRIBUTING.md's fault table names tests that exist, and every kind of failure has a row."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import omni_cli.executor.error_mapping  # its kinds are subclasses too  # noqa: F401
from omni_cli.errors import RequestError

ROOT = Path(__file__).parent.parent
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """The rows of the table, without its head."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("\n## Faults\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("|")][2:]


@cache
def functions(path: Path) -> set[str]:
    """The test functions of a file."""
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_every_row_names_tests_that_exist(row: str) -> None:
    assert row.count("|") == 5, "four cells"
    named = TEST.findall(row)
    assert named, "a row without a test is a promise without a proof"
    for path, name in named:
        assert name in functions(ROOT / path), f"{path} has no {name}"


def test_every_kind_of_failure_is_in_the_table() -> None:
    kinds = {kind.kind for kind in RequestError.__subclasses__()}
    assert len(rows()) > 20
    assert not {kind for kind in kinds if f"`{kind}`" not in "".join(rows())}
