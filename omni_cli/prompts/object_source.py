"""Requests that are Python objects as the source of a run: recorded samples that are rendered again."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from omni_cli.prompts.objects import validate_object
from omni_cli.prompts.prompt_source import PromptSource
from omni_cli.prompts.row import Rows
from omni_cli.request import GenerationRequest
from omni_cli.text import escape


class ObjectSource(PromptSource):
    """Requests that are Python objects as the source of a run."""

    def __init__(self, requests: Iterable[tuple[str, GenerationRequest]], defaults: GenerationRequest) -> None:
        """Take requests, each with what its problems name as their source: the file that it comes from."""
        super().__init__("", defaults)
        self._requests = [(escape(source), request) for source, request in requests]

    @property
    def base(self) -> Path:
        """The working folder, where relative input paths start."""
        return Path()

    def __enter__(self) -> Self:
        """Open nothing."""
        return self

    def rows(self) -> Rows:
        """Return all requests, or the diagnostics of their mistakes."""
        for index, (source, request) in enumerate(self._requests):
            yield from validate_object(request, index, self._defaults, source)
