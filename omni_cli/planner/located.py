"""What planning needs of a request that was read somewhere: the request, and a way to point at it."""

from typing import Protocol

from omni_cli.errors import Problem
from omni_cli.request import GenerationRequest


class Located(Protocol):
    """A request and its place; `prompts.Located` is one. `index` counts from 0, `line` from 1."""

    @property
    def request(self) -> GenerationRequest:
        """The request as it was written."""

    @property
    def index(self) -> int:
        """Its number in the source."""

    @property
    def line(self) -> int:
        """The line that it starts at."""

    def problem(self, field: str, message: str, allowed: str = "") -> Problem:
        """A problem of `field`, at the place that says it."""
