"""The Python API: `OmniGen`, and the session that the command line runs."""

from omni_cli.api.omni_gen import OmniGen
from omni_cli.api.session import Session
from omni_cli.api.stepwise_stream import StepwiseStream

__all__ = ["OmniGen", "Session", "StepwiseStream"]
