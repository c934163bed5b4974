"""The Python surface: `OmniGen`, and the session that the command line runs."""

from omni_cli.api.omni import OmniGen
from omni_cli.api.session import Session
from omni_cli.api.stream import Stream

__all__ = ["OmniGen", "Session", "Stream"]
