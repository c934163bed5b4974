"""The figures of a run, computed here alone for views, journal, bench and report, and its Chrome trace."""

from omni_cli.trace.forward_clock import ForwardClock
from omni_cli.trace.overlap import Overlap
from omni_cli.trace.timeline import Figures, Timeline

__all__ = ["Figures", "ForwardClock", "Overlap", "Timeline"]
