"""Prompt files from standard input: their rows, their requests, their problems."""

import io
from collections.abc import Callable
from typing import Any

import pytest

from omni_cli.errors import Diagnostic
from omni_cli.prompts import LocatedRequest, read
from omni_cli.prompts.reader import ReadOptions
from omni_cli.request import GenerationRequest

Rows = list[LocatedRequest | Diagnostic]


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@pytest.fixture
def rows() -> Callable[..., Rows]:
    """Return rows(content, format), which reads all rows of a content."""
    return lambda content, kind=None, **options: list(
        read("-", binary=io.BytesIO(as_bytes(content)), options=ReadOptions(format=kind, **options))
    )


@pytest.fixture
def requests(rows: Callable[..., Rows]) -> Callable[..., list[GenerationRequest]]:
    """Return requests(content, format), which reads a content that must have no mistake."""

    def all_requests(content: str | bytes, kind: str | None = None, **options: Any) -> list[GenerationRequest]:
        found = rows(content, kind, **options)
        assert [str(row) for row in found if isinstance(row, Diagnostic)] == []
        return [row.request for row in found]

    return all_requests


@pytest.fixture
def problems(rows: Callable[..., Rows]) -> Callable[..., list[str]]:
    """Return problems(content, format): the diagnostics as "line:column: ..."."""
    return lambda content, kind=None, **options: [
        str(row).removeprefix("<stdin>:") for row in rows(content, kind, **options) if isinstance(row, Diagnostic)
    ]
