"""Flags that say what is shown of a run."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

_PANEL = "View"


class Progress(StrEnum):
    """How progress is shown on stderr."""

    AUTO = "auto"
    RICH = "rich"
    PLAIN = "plain"
    JSON = "json"
    NONE = "none"


class Print(StrEnum):
    """What is written to stdout for each finished request."""

    PATHS = "paths"
    JSON = "json"

    @property
    def mode(self) -> Literal["paths", "json"]:
        """The value, as the type that the view takes."""
        return "paths" if self is Print.PATHS else "json"


ProgressOption = Annotated[Progress, typer.Option("--progress", help="On stderr.", rich_help_panel=_PANEL)]
PrintOption = Annotated[
    Print | None, typer.Option("--print", help="On stdout, for each finished request.", rich_help_panel=_PANEL)
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done; load and write nothing.", rich_help_panel=_PANEL)
]
Trace = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the timeline as a Chrome trace.", rich_help_panel=_PANEL)
]
LogFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Append the log here.", rich_help_panel=_PANEL)]
