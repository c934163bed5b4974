import io
from collections.abc import Callable

import pytest

from omni_cli.errors import Problem
from omni_cli.prompts import Located, read
from omni_cli.request import GenerationRequest

Rows = list[Located | Problem]


def as_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


@pytest.fixture
def rows() -> Callable[..., Rows]:
    """All rows of a content read from standard input."""
    return lambda content, kind=None: list(read("-", stdin=io.BytesIO(as_bytes(content)), format=kind))


@pytest.fixture
def requests(rows: Callable[..., Rows]) -> Callable[..., list[GenerationRequest]]:
    """The requests of a content that must be without fault."""

    def all_requests(content: str | bytes, kind: str | None = None) -> list[GenerationRequest]:
        found = rows(content, kind)
        assert [str(row) for row in found if isinstance(row, Problem)] == []
        return [row.request for row in found]

    return all_requests


@pytest.fixture
def faults(rows: Callable[..., Rows]) -> Callable[..., list[str]]:
    """The problems of a content as "line:column: ...", without the name of the source."""
    return lambda content, kind=None: [
        str(row).removeprefix("<stdin>:") for row in rows(content, kind) if isinstance(row, Problem)
    ]
